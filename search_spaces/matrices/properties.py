"""Which encoding has which of the properties that an ideal one would have?

Source: thesis, table 5. Derived: `absolute`, `direction`, `distance`, `direction-probe` and `distance-probe` fill it.
"""

from search_spaces.matrix import Cell, Matrix, Property
from search_spaces.studies.direction_probe import GAMMA_GAP

BOTH = {name: (f"{name}, token", f"{name}, mean") for name in ("relative", "absolute", "fourier", "sinusoidal")}
"""The arms of an encoding under both read-outs."""


def _scores(name: str, study: str, relative: Cell) -> Property:
    others = {encoding: Cell("yes", BOTH[encoding]) for encoding in ("absolute", "fourier", "sinusoidal")}
    return Property(name, study, {"relative": relative, **others})


def _bias(name: str, study: str) -> Property:
    cells = {
        "relative": Cell("no"),
        "absolute": Cell("no", ("absolute",)),
        "fourier": Cell("partly", ("fourier 2.5",)),
        "sinusoidal": Cell("yes", ("sinusoidal",)),
    }
    return Property(name, study, cells, shown_by="probes")


matrix = Matrix(
    name="properties",
    question="Which encoding has which of the properties that an ideal one would have?",
    paper="Zhang 2022, How to encode location in the Vision Transformer?, table 5",
    rows=(
        _scores("encodes absolute location", "absolute", Cell("no", BOTH["relative"])),
        _scores("encodes relative direction", "direction", Cell("yes", BOTH["relative"])),
        _scores("encodes relative distance", "distance", Cell("yes", BOTH["relative"])),
        _bias("knows direction before training", "direction-probe"),
        _bias("knows distance before training", "distance-probe"),
        Property(
            "learnable",
            "direction",
            {name: Cell("no" if name == "sinusoidal" else "yes", arms[:1]) for name, arms in BOTH.items()},
            shown_by="parameters",
        ),
    ),
    gaps=(
        "relative adds no code to a token, so the probes of codes find nothing to look at before training",
        "the thesis does not name its read-out: scores are of the class token and of the mean of all patches",
        "a claim says only “at least so much”, so it cannot tell “partly” from “yes”",
        GAMMA_GAP,
    ),
)
