"""Under pytest the shapes written at the boundaries of encodings and backbones are checked.

A property's examples have no limit of time: on a busy machine the same example takes many times as long.
"""

from pathlib import Path

from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

ROOT = Path(__file__).parents[1]
CHECKED = [
    ".".join(file.relative_to(ROOT).with_suffix("").parts)
    for room in ("encodings", "backbones")
    for file in sorted((ROOT / "trainables" / room).glob("*_torch.py"))
]

install_import_hook(CHECKED, "beartype.beartype")

usual = settings.get_profile(settings.get_current_profile_name())
settings.register_profile("busy", usual, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
