"""locus: named studies of position encodings in vision transformers.

    import service

    result = service.run("fourier-gamma", budget="smoke")
    result = service.sweep({"data.task": "direction"}, {"encoding.gamma": service.Real(0.1, 30, log=True)}, trials=12)
    result = service.ablate({"none": {}, "peg": {"encoding.kind": "peg"}}, baseline="none", seeds=5)
    submission = service.submit("fourier-gamma", address="http://head:8265", home="/shared/locus")

Every verb raises LocusError, whose one sentence says what cannot be done. Importing this package starts nothing:
torch, timm, Ray, Optuna and MLflow are imported when a verb needs them.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from service.public import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """Returns the object that a public name stands for; it is imported when it is first asked for."""
    if name.startswith("__") and name != "__all__":
        raise AttributeError(name)
    public = import_module("service.public")
    if "ipykernel" in sys.modules:
        import_module("service.terminal.live").without_widgets()
    known = [offered for offered in vars(public) if not offered.startswith("_")]
    known.sort(key=lambda offered: (not offered.isupper(), offered))
    if name == "__all__":
        return known
    if name not in known:
        raise AttributeError(f"service has no {name!r}; it offers {', '.join(known)}")
    return getattr(public, name)


def __dir__() -> list[str]:
    """Returns the public names, for completion."""
    return list(__getattr__("__all__"))
