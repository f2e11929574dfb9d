"""Under pytest the shapes written at the encodings' boundaries are checked."""

from jaxtyping import install_import_hook

CHECKED = ["trainables.encoding", "trainables.host", "trainables.backbones.vit"]
CHECKED += [f"trainables.backbones.{kind}" for kind in ("cait", "convit", "volo", "tnt", "pvt_v2", "swin", "twins")]
CHECKED += [f"trainables.encodings.{kind}" for kind in ("absolute", "sinusoid", "fourier", "gabor")]
CHECKED += [f"trainables.encodings.{kind}" for kind in ("offset", "irpe", "lookup", "convolution")]
CHECKED += [f"trainables.encodings.{entry}" for entry in ("addition", "concatenation", "logit_parts")]

install_import_hook(CHECKED, "beartype.beartype")
