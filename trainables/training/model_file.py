"""Files of trained models: weights, and what the model is, in torch's format, in that of safetensors, or as ONNX.

A file of the first two is read back. It holds the outputs for two images that are made by formula: if today's code
computes others from the weights, the file is refused, for its predictions would be others, too.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from trainables.spec import LocusError, SpecError
from trainables.training.checkpoint import packed, read, write_whole
from trainables.training.runtime import HALVES
from trainables.training.trained import Facts, TrainedModel, evaluating, texts
from trainables.trusted import UntrustedError, guarded

ENDINGS = (".pt", ".safetensors", ".onnx")
"""How the names of the files end."""
ONNX_NEEDS = ("onnx", "onnxscript")
"""The packages with which torch writes ONNX."""
ONNX_BYTES = 3 * 2**29
"""How many bytes of float32 torch writes into a file of ONNX; it puts the weights of a larger model beside it."""
CHECK = "outputs"
"""The entry with the outputs for `made_images`."""
CLOSE, CLOSE_IN_HALF = 1e-3, 5e-2
"""How far outputs may differ from those in a file, of the largest of them: processors round in different ways."""
LEAST = 1e-4
"""The size of outputs below which they may be what rounding leaves of larger numbers."""


def write_model(path: Path, model: TrainedModel, *, force: bool = False) -> None:
    """Writes a trained model whole, in the format that the name's ending names. `force`: it may replace a file.

    Raises: SpecError for another ending; LocusError if a file is there, it cannot be written, or a package is missing.
    """
    check_path(path, force=force)
    if path.suffix == ".pt":
        content = packed({"state_dict": model.model.state_dict(), "metadata": _entries(model)})
    elif path.suffix == ".safetensors":
        tensors = {name: value.clone().contiguous() for name, value in model.model.state_dict().items()}
        content = safetensors.torch.save(tensors, _entries(model))
    else:
        content = _as_onnx(model)
    try:
        write_whole(path, content)
    except OSError as error:
        raise LocusError(f"the model must go to a file that can be written, got {path} ({error.strerror})") from None


def check_path(path: Path, *, force: bool = False) -> None:
    """Refuses a name that `write_model` would refuse. Raises: as it does."""
    if path.suffix not in ENDINGS:
        raise SpecError(f"the file of a model must end in {' or '.join(ENDINGS)}, got {path.name!r}")
    if path.exists() and not force:
        raise LocusError(f"{path} must be a new file, got one that is there; --force replaces it")
    missing = [name for name in ONNX_NEEDS if path.suffix == ".onnx" and find_spec(name) is None]
    if missing:
        raise LocusError(f"torch must have its exporter to write ONNX, got none: pip install {' '.join(missing)}")


def read_model(path: Path, *, trust: bool = False) -> TrainedModel:
    """Returns the model of a file that `write_model` wrote, ready to predict.

    `trust`: code of somebody's own, which the file may carry (an encoding, a data set), is run, also if nobody has
    run it here before.
    Raises: LocusError for another file, for one with code that is not trusted, and where today's code computes other
    outputs.
    """
    weights, entries = _weights_and_entries(path)
    fields = Facts.model_fields
    if not {CHECK, *(name for name, field in fields.items() if field.is_required())} <= entries.keys():
        raise LocusError(f"{path} must be a model that locus exported, got a file without its recipe")
    plain = {name: text for name, text in entries.items() if name in fields}
    plain |= {name: _parsed(path, name, text) for name, text in plain.items() if fields[name].annotation is not str}
    try:
        with nullcontext() if trust else guarded():
            facts = Facts.read(plain)
    except UntrustedError as error:
        file = str(error).partition(",")[0]
        must = "which was not run here before: trust=True runs it"
        raise LocusError(f"{path} carries the code of {file}, {must}") from None
    expected = _parsed(path, CHECK, entries[CHECK], lambda text: np.array(json.loads(text), np.float64))
    try:
        model = TrainedModel(facts, weights)
    except RuntimeError:  # torch's, for weights of other names or shapes
        raise _other_code(path, facts, "a model with other weights") from None
    outputs, close = np.array(_outputs(model)), CLOSE_IN_HALF if model.precision in HALVES else CLOSE
    if outputs.shape != expected.shape or not np.allclose(
        outputs, expected, rtol=0, atol=close * max(np.abs(expected).max(), LEAST)
    ):
        raise _other_code(path, facts, "other outputs")
    return model


def made_images(model: TrainedModel) -> Tensor:
    """Returns two images by a formula, as bytes: pixel number i is 7 i, and 11 i in the second, modulo white + 1."""
    channels, rows, columns = model.facts.image_size
    numbers = torch.arange(channels * rows * columns).reshape(1, channels, rows, columns)
    factors = torch.tensor([7, 11]).reshape(2, 1, 1, 1)
    return (numbers * factors % (model.facts.white + 1)).to(torch.uint8)


def made_floats(model: TrainedModel) -> Tensor:
    """Returns the images of `made_images` as float32 from 0 (black) to 1 (white)."""
    return made_images(model).float().div(model.facts.white)


def _entries(model: TrainedModel) -> dict[str, str]:
    return texts(model.facts.plain() | {CHECK: _outputs(model)})


def _outputs(model: TrainedModel) -> list[list[float]]:
    with torch.inference_mode(), evaluating(model):
        outputs: list[list[float]] = model(made_images(model)).cpu().double().tolist()
    return outputs


def _parsed(path: Path, name: str, text: str, parse: Callable[[str], Any] = json.loads) -> Any:
    try:
        return parse(text)
    except (TypeError, ValueError):
        raise LocusError(f"{path} must be a model that locus exported, got one whose {name} cannot be read") from None


def _other_code(path: Path, facts: Facts, got: str) -> LocusError:
    must = f"the model of {path} must compute what it did when it was written"
    return LocusError(f"{must}, got {got}: read it with locus {facts.locus} and its code {facts.code}")


def _as_onnx(model: TrainedModel) -> bytes:
    """Returns the whole model, normalization included: floats from 0 to 1 in, outputs out, any number of images.

    Raises: LocusError for a model that is too large for one file.
    """
    example, whole = made_floats(model), in_float32(model)
    size = sum(value.nbytes for value in (*whole.parameters(), *whole.buffers()))
    if size > ONNX_BYTES:
        most, got = (f"{count / 2**30:.1f} GiB" for count in (ONNX_BYTES, size))
        raise LocusError(f"weights must take at most {most} in a file of ONNX, got {got}: write .pt or .safetensors")
    program = torch.onnx.export(
        whole, (example,), dynamo=True, verbose=False, input_names=["images"], output_names=["outputs"],
        dynamic_shapes={"images": {0: torch.export.Dim.AUTO}},
    )  # fmt: skip
    assert program is not None
    program.model.metadata_props.update(_entries(model))
    with tempfile.TemporaryDirectory(prefix="locus-onnx-") as folder:
        file = Path(folder) / "model.onnx"
        program.save(file)
        return file.read_bytes()


def in_float32(model: TrainedModel) -> TrainedModel:
    """Returns a copy that computes in float32: ONNX Runtime has no other numbers for some operations."""
    other = deepcopy(model).cpu().float().eval()
    other.precision = "float32"
    return other


def _weights_and_entries(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    if path.suffix not in ENDINGS[:2]:
        must = f"end in {' or '.join(ENDINGS[:2])} to be read back"
        raise SpecError(f"the file of a model must {must}, got {path.name!r}")
    if not path.is_file():
        raise LocusError(f"{path} must be a file of a model, got no such file")
    if path.suffix == ".pt":
        match read(path):
            case {"state_dict": dict(weights), "metadata": dict(entries)}:
                return weights, entries
        return {}, {}
    try:
        with safetensors.safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise LocusError(f"{path} must be a file of safetensors, got a damaged one ({error})") from None
