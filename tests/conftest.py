"""Under pytest the shapes written at the boundaries of encodings and backbones are checked."""

from pathlib import Path

from jaxtyping import install_import_hook

ROOT = Path(__file__).parents[1]
CHECKED = [
    ".".join(file.relative_to(ROOT).with_suffix("").parts)
    for room in ("encodings", "backbones")
    for file in sorted((ROOT / "trainables" / room).glob("*_torch.py"))
]

install_import_hook(CHECKED, "beartype.beartype")
