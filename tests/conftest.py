"""Under pytest the shapes written at the encodings' boundaries are checked."""

from jaxtyping import install_import_hook

CHECKED = ["trainables.encoding", "trainables.vit"]
CHECKED += [f"trainables.encodings.{name}" for name in ("absolute", "sinusoid", "fourier", "offset", "convolution")]

install_import_hook(CHECKED, "beartype.beartype")
