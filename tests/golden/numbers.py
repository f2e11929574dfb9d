"""Golden numbers: what tiny trainings of every kind give, so that who changes numbers raises a revision.

    python -m tests.golden.numbers             trains all and compares; a fast test does the same
    python -m tests.golden.numbers --record    writes the file; refuses moved numbers whose revision was not raised

Each kind of a recipe's node is trained once, and once with another value of each of its fields, in float64: processors
differ by less than `TOLERANCE`. The file has the defaults of each kind, too, as a run's key leaves out what has its
default.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, suppress
from math import isclose
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import numpy as np
import torch
from PIL import Image

from tests.anchors.backbones import SPECS
from tests.laws.conftest import TOYS
from tests.rooms.trainables.backbones.test_own import NET
from tests.rooms.trainables.data.own_data import SHAPES
from trainables.probes.catalog import probe_run
from trainables.recipe import Recipe, Run
from trainables.recipe.findings import LOOKS, REVISIONS
from trainables.recipe.kinds import nodes
from trainables.recipe.revisions import code_of
from trainables.spec import LocusError
from trainables.training.loop import build_model_with_weights, train
from trainables.training.runtime import runtime

FILE = Path(__file__).with_name("numbers.json")
TOLERANCE = 1e-6
"""The relative difference from which on a number has moved."""
ROUGH, ROUGHLY = "optimizer.muon", 0.01
"""The cases of Muon, and their tolerance: it iterates in bfloat16, whose sums differ between processors, by 0.0018."""
SMALL = {
    "data.image_size": 16, "data.train_size": 9, "data.val_size": 4, "data.test_size": 4, "model.embed_dim": 16,
    "model.depth": 2, "model.num_heads": 2, "optimizer.epochs": 2, "optimizer.batch_size": 6, "optimizer.lr": 0.01,
    "optimizer.precision": "float64",
}  # fmt: skip
FOLDER = {"data": {"kind": "folder", "path": "pictures", "image_size": 8, "val_size": 4}, "model.patch_size": 4}
PARENT = {"kind": "from_trial", "values": {"data.task": "absolute"}, "part": "backbone"}
WEIGHTS = {"kind": "from_file", "path": "weights.pt"}
NEEDS: dict[str, dict[str, Any]] = {
    "data.red_green": {},
    "model.vit": {},
    "data.digits": {
        "data": {"kind": "digits", "train_size": 10, "val_size": 10, "test_size": 10},
        "model.patch_size": 4,
    },
    "data.folder": FOLDER,
    "data.arrays": {"data": {"kind": "arrays", "path": "set.npz", "image_size": 8}, "model.patch_size": 4},
    "data.normalize.mean_std": {
        "data.normalize": {"kind": "mean_std", "mean": [0.4, 0.5, 0.5], "std": [0.3, 0.2, 0.25]}
    },
    **{f"model.{kind}": {"model": spec, "data.image_size": 32} for kind, spec in SPECS.items()},
    "model.timm": {"model": {"kind": "timm", "name": "test_vit"}},
    "encoding.composed": {"encoding": {"kind": "composed", "parts": [{"kind": "fourier"}, {"kind": "rotary"}]}},
    "augment.standard": FOLDER | {"augment.kind": "standard"},
    "augment.deit": FOLDER | {"augment.kind": "deit"},
    "augment.three_augment": FOLDER | {"augment.kind": "three_augment"},
    "loss.bce": {"data.task": "direction4", "loss.kind": "bce"},
    "init.from_trial": {"encoding.kind": "learnable", "init": PARENT},
    "init.from_file": {"encoding.kind": "learnable", "init": WEIGHTS},
    "teacher.from_trial": {"model.pool": "distilled", "teacher": {"kind": "from_trial", "values": {}}},
    "teacher.from_file": {"model.pool": "distilled", "encoding.kind": "learnable", "teacher": WEIGHTS},
}
"""What a kind needs beside the rest of a small recipe."""
IRPE = {"encoding.kind": "irpe", "model.patch_size": 2}
HOLDERS = {
    "encoding.injection": {"encoding.kind": "fourier"}, "encoding.offsets": {"encoding.kind": "relative"},
    "encoding.mapping": IRPE, "encoding.index": IRPE,
}  # fmt: skip
"""The encodings that have these nodes; so many patches that distances reach beyond beta."""
CODED = dict.fromkeys(("cait", "convit", "volo", "tnt"), "learnable") | dict.fromkeys(("pvt_v2", "twins"), "peg")
UNVARIED = {"kind", "path", "sha256", "entry", "precision"}
"""Fields that name a file, or a model in it; and the precision, as processors differ by more in others."""
ABSENT = {"data.cifar10", "data.cifar100", "data.flowers102", "data.oxford_pets", "data.tiny_imagenet"}
ABSENT |= {"init.from_timm", "data.normalize.timm"}
"""Kinds that are not trained here: sets and weights that must be fetched. Their own tests read small ones."""
FURTHER: dict[str, dict[str, Any]] = {
    **{
        f"own encoding {name}": {"encoding": {"kind": f"toys.py:{name}", "source": TOYS}}
        for name in ("Spiral", "Tide", "Beside", "Marker")
    },
    "own data": {"data": {"kind": "mine.py:Shapes", "source": SHAPES}, "model.patch_size": 4},
    "own model": {"model": {"kind": "net.py:MyViT", "source": NET}},
    "test sizes": {"test_sizes": [24]},
    **{
        f"{kind}, {code}": {"model": SPECS[kind], "data.image_size": 32, "encoding.kind": code}
        for kind, code in CODED.items()
    },
    "trainable position+head": {"encoding.kind": "learnable", "trainable": "position+head"},
}
"""What is no kind of a node."""


def prepare(folder: Path) -> None:
    """Writes the images and weights that recipes name into a folder."""
    pixels = np.random.default_rng(0).integers(0, 256, (24, 8, 8, 3), np.uint8)
    for number, picture in enumerate(pixels):
        file = folder / "pictures" / ("test" if number < 6 else "train") / f"class_{number % 3}" / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(file)
    np.savez(folder / "set.npz", images=pixels[..., 0], labels=np.arange(24) % 5 % 2)
    coded = Recipe().put({**SMALL, "encoding.kind": "learnable"})
    torch.save(build_model_with_weights(coded, 1).state_dict(), folder / "weights.pt")


GROUPS = (*(node for node in nodes() if "." not in node), "further", "probes")
"""The nodes of a recipe, what is no kind of a node, and the looks at a trained model."""


def cases(group: str) -> Iterator[tuple[str, Recipe]]:
    """Yields every kind with its defaults, then with another value of each field; in the folder of `prepare`."""
    small = Recipe().put(SMALL)
    for node, kinds in nodes().items():
        if node.partition(".")[0] != group:
            continue
        for kind, cls in kinds.items():
            if (name := f"{node}.{kind}") in ABSENT:
                continue
            values = NEEDS.get(name, HOLDERS.get(node, {}) | {f"{node}.kind": kind})
            training = {path: value for path, value in SMALL.items() if path.startswith("optimizer.")}
            recipe = small.put(with_digests(values | (training if node == "optimizer" else {})))
            yield name, recipe
            if type(recipe.get(node)) is cls:
                for field in sorted({*cls.model_fields} - {*cls.READ, *UNVARIED}):
                    for value, other in varied(recipe, node, field):
                        yield f"{name}, {field} {value}", other
    for name, values in FURTHER.items() if group == "further" else ():
        yield f"further.{name}", small.put(values)


def with_digests(values: dict[str, Any]) -> dict[str, Any]:
    """Returns values with the digest beside the path of each file of weights."""
    sums = {"sha256": hashlib.sha256(Path("weights.pt").read_bytes()).hexdigest()}
    found = {
        path: node | sums for path, node in values.items() if isinstance(node, dict) and node["kind"] == "from_file"
    }
    return values | found


def varied(recipe: Recipe, node: str, field: str) -> Iterator[tuple[Any, Recipe]]:
    """Yields the recipe with each other value that a field lists, or with one value where it lists none."""
    value, spec = recipe.get(f"{node}.{field}"), type(recipe.get(node))
    listed = [*literals(spec.model_fields[field].annotation)]
    for other in others(value, listed):
        with suppress(LocusError, KeyError):
            changed = recipe.put({f"{node}.{field}": other})
            if changed.identity() != recipe.identity():
                yield other, changed
                if not listed:
                    return


def literals(annotation: Any) -> Iterator[Any]:
    """Yields the values that a field's type lists."""
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    elif not isinstance(annotation, type):
        for part in get_args(annotation):
            yield from literals(part)


def others(value: Any, listed: list[Any]) -> Iterator[Any]:
    """Yields values to try in place of a field's own, the likeliest first."""
    match value:
        case bool():
            yield not value
        case tuple() if listed:
            yield from ([item] for item in listed)
        case _ if listed:
            yield from listed
        case int() | float():
            yield from (value * 2, value / 2, value + 1, value - 1, value // 2, 1, 0.5)
        case (*first, int() | float() as last):
            yield from ([*first, last * 2], [1])
        case ():
            yield from ([1], [2])
        case None:
            yield from (2, 0.5, 1, "rand-m9", [2, 2])


def numbers(run: Run, folder: Path) -> list[float]:
    """Trains a run: the values of its last epoch, then a sum over its last weights that moves if any of them does."""
    parents = {use: folder / use / "weights.pt" for use in run.parents}
    for use, parent in run.parents.items():
        numbers(parent, folder / use)
    folder.mkdir(parents=True, exist_ok=True)
    *_, last = train(run, folder, parents=parents)
    clocked = ("time/", "memory/", "train/images")
    values = [value for name, value in sorted(last.values.items()) if not name.startswith(clocked)]
    state = torch.load(folder / "weights.pt")
    weights = torch.cat([state[name].double().flatten() for name in sorted(state) if state[name].is_floating_point()])
    return [*values, float(weights @ torch.arange(1.0, len(weights) + 1, dtype=torch.float64).cos())]


def computed(group: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields each case of a group with today's revisions and numbers."""
    with tempfile.TemporaryDirectory() as name, chdir(name), runtime(1, "float64"):
        prepare(Path())
        if group == "probes":
            yield from probed(Path(name))
            return
        for number, (case, recipe) in enumerate(cases(group)):
            values = numbers(Run(recipe=recipe, seed=3), Path(name, str(number)))
            yield case, {"revisions": code_of(recipe).revisions, "numbers": values, "defaults": defaults(case)}


def probed(root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields each look at a trained model with its revision and numbers: of an array a sum with rising weights."""
    learnable = {**SMALL, "encoding.kind": "learnable"}
    more = {"further_images": {}, "image_classes": {"trainable": "position", "init": PARENT}}
    for look in LOOKS:
        run, folder = Run(recipe=Recipe().put(learnable | more.get(look, FOLDER)), seed=3), root / look
        numbers(run, folder)
        parent = folder / "init" / "weights.pt" if run.parents else None
        found = probe_run(look, run, folder / "weights.pt", parent, None, {}).after
        arrays = [np.nan_to_num(array).ravel() for array in found.arrays.values() if array.dtype.kind in "bif"]
        values = [*found.values.values(), *(float(array @ np.linspace(1, 2, len(array))) for array in arrays)]
        assert values, found.note
        yield f"probes.{look}", {"revisions": {look: REVISIONS[look]}, "numbers": values, "defaults": {}}


def defaults(case: str) -> dict[str, Any]:
    """Returns the defaults of the fields of a case's kind, as JSON has them; nothing for a case with another value."""
    node, _, kind = case.rpartition(".")
    fields = nodes()[node][kind].model_fields if kind in nodes().get(node, {}) else {}
    optional = {name: info for name, info in fields.items() if not info.is_required()}
    plain = {name: info.get_default(call_default_factory=True) for name, info in optional.items()}
    return json.loads(json.dumps(plain, default=lambda value: value.plain()))


RECORD = "has another revision or a new field: record it"


def moved(case: str, then: dict[str, Any], now: dict[str, Any]) -> str:
    """Returns what is wrong with a case beside what the file has of it; empty if nothing is."""
    if changed := [name for name in then["defaults"] if then["defaults"][name] != now["defaults"].get(name)]:
        return f"has another default of {', '.join(changed)}, which its keys leave out: add a value or a kind"
    tolerance = ROUGHLY if case.startswith(ROUGH) else TOLERANCE
    pairs = [*zip(then["numbers"], now["numbers"], strict=False)]
    same = len(then["numbers"]) == len(now["numbers"]) and all(isclose(*pair, rel_tol=tolerance) for pair in pairs)
    if not same and then["revisions"] == now["revisions"]:
        return "has other numbers, and the same revision: raise REVISION of what moved, LOOP, or a probe's in REVISIONS"
    renewed = then["revisions"] != now["revisions"] or then["defaults"] != now["defaults"]
    return RECORD if renewed else ""


def recorded() -> dict[str, dict[str, Any]]:
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="write the file")
    record = parser.parse_args().record
    then, now = recorded(), {case: value for group in GROUPS for case, value in computed(group)}
    wrong = {case: why for case in now if case in then and (why := moved(case, then[case], now[case]))}
    if record:
        wrong = {case: why for case, why in wrong.items() if why != RECORD}
    for case, why in wrong.items():
        print(f"{case} {why}")
    if record and not wrong:
        lines = ",\n".join(f"{json.dumps(case)}: {json.dumps(value)}" for case, value in now.items())
        FILE.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
