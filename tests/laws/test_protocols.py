"""The fine-tuning of the Gabor and the concat paper as recipes: what they load, what learns, what stays bit for bit."""

import hashlib
from itertools import islice

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch.nn.functional import cross_entropy

from search_spaces.presets import DEIT, GABOR
from tests.anchors.backbones import SPECS, size, spread, timms
from tests.rooms.trainables.data.pictures import image_folder
from tests.rooms.trainables.training.small_runs import numbers
from trainables.backbones import ViT
from trainables.data import RedGreen
from trainables.data.folder import Folder
from trainables.encodings import PEG, Add, Composed, Concat, Extend, Gabor, Learnable, NoEncoding, Parts
from trainables.recipe import FromFile, FromTrial, Recipe, Run
from trainables.training.checkpoint import WEIGHTS, read
from trainables.training.loop import build_model_with_weights, train
from trainables.training.optimizer import build_optimizer
from trainables.training.parameters import no_decay, train_mode

DIM, DEPTH, PATCHES = 16, 3, 16
TINY = {"optimizer.epochs": 1, "optimizer.batch_size": 7}
IN_QK = Add(places=("query", "key"), shared=False)
IN_V = Add(places=("value",), shared=False)
G_AND_E, EDGE = 14 * DIM, 6 * DIM
"""Numbers of a code: six of a Gabor wave along each side of which two weigh it, four edges, an offset, a prefix."""

BEFORE_ALL = {
    "table 1: G+E": (Gabor(), G_AND_E),
    "table 1: G": (Gabor(form="gabor"), 10 * DIM),
    "table 1: E": (Gabor(form="edge"), EDGE),
}
"""Codes in the place of the table, with their published numbers of values a channel (times 16 here)."""

IN_BLOCKS = {
    "table 2: the table again": (Learnable(), (PATCHES + 1) * DIM),
    "table 3: part 4, E in v": (
        Composed(parts=(Gabor(injection=Parts(parts=(1, 4), shared=False)), Gabor(form="edge", injection=IN_V))),
        DEPTH * (2 * G_AND_E + EDGE),
    ),
    "table 4: E in v": (Gabor(form="edge", injection=IN_V), DEPTH * EDGE),
    "table 4: LE in q, k": (Learnable(injection=IN_QK), DEPTH * 2 * (PATCHES + 1) * DIM),
    "table 4: G+E in q, k": (Gabor(injection=IN_QK), DEPTH * 2 * G_AND_E),
    "table 4: G+E in q, k, E in v": (
        Composed(parts=(Gabor(injection=IN_QK), Gabor(form="edge", injection=IN_V))), DEPTH * (2 * G_AND_E + EDGE),
    ),
    "table 5: two layers": (
        Composed(parts=tuple(
            Gabor(form=form, injection=injection.put({"blocks": 2}))
            for form, injection in (("gabor+edge", IN_QK), ("edge", IN_V))
        )),
        2 * (2 * G_AND_E + EDGE),
    ),
    "figure 11: 4 channels a head": (Gabor(injection=Extend(channels=4, shared=False)), None),
}  # fmt: skip
"""Codes inside the blocks of the fine-tuned backbone, with the number of values that learn."""


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return Folder(path=str(image_folder(tmp_path_factory.mktemp("set"), {"train": 7, "test": 2})), image_size=16)


@pytest.fixture(scope="module")
def theirs():
    """A model of timm's with a table, which stands for DeiT."""
    return spread(VisionTransformer(img_size=16, patch_size=4, embed_dim=DIM, depth=DEPTH, num_heads=2, num_classes=3))


def saved(model, path):
    torch.save({"model": model.state_dict()}, path)
    return FromFile(str(path), hashlib.sha256(path.read_bytes()).hexdigest())


@pytest.fixture(scope="module")
def bare(images, theirs, tmp_path_factory):
    """The backbone without its table, before anything learns: its state dict is timm's."""
    start = saved(theirs, tmp_path_factory.mktemp("deit") / "deit.pth").put({"part": "backbone"})
    return Recipe(data=images, model=ViT(embed_dim=DIM, depth=DEPTH, num_heads=2), init=start)


@pytest.fixture(scope="module")
def baseline(bare):
    """Gabor 5.1: DeiT without its table, all of it fine-tuned at 1e-5."""
    return bare.put({**GABOR, **TINY, "trainable": "all", "optimizer.lr": 1e-5})


@pytest.fixture(scope="module")
def fine_tuned(baseline, tmp_path_factory):
    folder = tmp_path_factory.mktemp("baseline")
    list(train(Run(baseline, 0), folder))
    return folder / WEIGHTS


def on_frozen(baseline, encoding):
    """Gabor 5.1: position added to the fine-tuned backbone, at 1e-3."""
    parent = {"encoding": NoEncoding(), "trainable": "all", "optimizer.lr": 1e-5, "init": baseline.init}
    start = FromTrial(values=parent, part="backbone")
    return baseline.put({**GABOR, **TINY, "encoding": encoding, "init": start})


def learnt(recipe, folder, parent=None):
    """The names of the weights and statistics that a training changed; the weights before it."""
    before = build_model_with_weights(recipe, 0, parent).state_dict()
    list(train(Run(recipe, 0), folder, parents={"init": parent} if parent else {}))
    after = read(folder / WEIGHTS)
    assert after.keys() == before.keys()
    return {name for name, value in after.items() if not torch.equal(value, before[name])}, before


def position(names):
    return {name for name in names if name.startswith("encoding.")}


def unread(names):
    """What the last block computes of the queries of patches: the head reads the class token alone, so nothing comes of
    it. The paper counts these values, too; the row or the vector of the class token is read.
    """
    last = {name for name in names if f".query_{DEPTH - 1}." in name}
    return {name for name in last if not name.endswith(("prefix", "table"))}


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("name", BEFORE_ALL)
def test_a_code_is_fitted_in_the_place_of_the_table(bare, theirs, tmp_path, name, precision):
    """Gabor table 1. Also while stochastic depth and DeiT's augmentation are on."""
    encoding, count = BEFORE_ALL[name]
    recipe = bare.put({**GABOR, **TINY, "encoding": encoding, "optimizer.precision": precision})
    assert recipe.model.drop_path == 0.1
    moved, before = learnt(recipe, tmp_path)
    assert moved == position(before)
    assert sum(before[name].numel() for name in moved) == count
    rest = {name: value for name, value in theirs.state_dict().items() if name != "pos_embed"}
    assert before.keys() - moved == rest.keys()
    assert all(torch.equal(read(tmp_path / WEIGHTS)[name], value.to(before[name])) for name, value in rest.items())


def test_a_backbone_without_its_table_is_fine_tuned(baseline, fine_tuned, theirs):
    """All of it moves, and begins as timm's."""
    before, after = build_model_with_weights(baseline, 0).state_dict(), read(fine_tuned)
    rest = {name: value for name, value in theirs.state_dict().items() if name != "pos_embed"}
    assert before.keys() == rest.keys()
    assert all(torch.equal(before[name], value) for name, value in rest.items())
    assert {name for name, value in after.items() if torch.equal(value, before[name])} == set()


@pytest.mark.parametrize("name", IN_BLOCKS)
def test_position_alone_learns_on_the_fine_tuned_backbone(baseline, fine_tuned, tmp_path, name):
    """Its parent is the very run of the baseline, so it is trained once for all of them."""
    encoding, count = IN_BLOCKS[name]
    recipe = on_frozen(baseline, encoding)
    (parent,) = Run(recipe, 0).needs()
    assert parent.key == Run(baseline, 0).key
    moved, before = learnt(recipe, tmp_path, fine_tuned)
    assert moved == position(before) - unread(before)
    assert count in (None, sum(before[name].numel() for name in position(before)))
    known = read(fine_tuned)
    assert before.keys() - position(before) == known.keys()
    assert all(torch.equal(before[name], value) for name, value in known.items())


def test_position_and_the_head_learn(baseline, fine_tuned, tmp_path):
    recipe = on_frozen(baseline, Gabor()).put({"trainable": "position+head"})
    moved, before = learnt(recipe, tmp_path, fine_tuned)
    assert moved == position(before) | {"head.weight", "head.bias"}


def test_all_of_it_learns_with_rates_that_fall_from_layer_to_layer(bare, tmp_path):
    values = {**DEIT, **TINY, "optimizer.min_lr": 0.0, "encoding": Learnable(), "init.part": "all"}
    moved, before = learnt(bare.put({**values, "optimizer.layer_decay": 0.65}), tmp_path)
    assert moved == before.keys()


def test_a_frozen_backbone_goes_on_from_a_checkpoint_bit_for_bit(baseline, fine_tuned, tmp_path):
    recipe = on_frozen(baseline, Gabor(injection=IN_QK)).put({"optimizer.epochs": 3})
    parents = {"init": fine_tuned}
    for name in ("calm", "torn"):
        (tmp_path / name).mkdir()
    calm = list(train(Run(recipe, 0), tmp_path / "calm", parents=parents))
    epochs = train(Run(recipe, 0), tmp_path / "torn", parents=parents)
    assert len(list(islice(epochs, 1))) == 1
    epochs.close()
    assert numbers(list(train(Run(recipe, 0), tmp_path / "torn", parents=parents))) == numbers(calm)
    one, other = (read(tmp_path / name / WEIGHTS) for name in ("calm", "torn"))
    assert all(torch.equal(one[name], value) for name, value in other.items())


@pytest.fixture(scope="module")
def pretraining(tmp_path_factory):
    """Images of other classes, which stand for ImageNet."""
    root = image_folder(tmp_path_factory.mktemp("large"), {"train": 5, "test": 2}, classes=4)
    return Folder(path=str(root), image_size=16)


@pytest.mark.parametrize("start", ["from_trial", "from_file"])
def test_a_model_with_concatenated_position_is_fine_tuned_on_other_images(images, pretraining, tmp_path, start):
    """Concat 4.1 trains it as DeiT, 4.2 fine-tunes it on other images: all of it learns, from the parent's weights.

    The data have other classes, so the head alone keeps its initial values. The weights are a parent's or a file's.
    """
    model, encoding = ViT(embed_dim=DIM, depth=DEPTH, num_heads=2), Learnable(injection=Concat())
    large = Recipe(data=pretraining, model=model, encoding=encoding).put({**DEIT, **TINY, "optimizer.min_lr": 0.0})
    (tmp_path / "large").mkdir()
    moved, _ = learnt(large, tmp_path / "large")
    known = read(tmp_path / "large" / WEIGHTS)
    assert moved == known.keys()
    file = tmp_path / "large" / WEIGHTS
    if start == "from_trial":
        small, parent = large.put({"data": images, "init": FromTrial(values={"data": pretraining})}), file
        assert small.parent == large
    else:
        small = large.put({"data": images, "init": FromFile(str(file), hashlib.sha256(file.read_bytes()).hexdigest())})
        parent = None
    moved, before = learnt(small, tmp_path, parent)
    assert moved == before.keys()
    other = {name for name, value in known.items() if not torch.equal(value, before[name])}
    assert other == {"head.weight", "head.bias"}


@pytest.mark.parametrize("kind", SPECS)
def test_nothing_but_position_moves_in_any_backbone(kind, tmp_path, monkeypatch):
    """Not the statistics of VOLO's batch norms, nor positions of a backbone's own; no backbone has dropout."""
    monkeypatch.setattr(RedGreen, "size", property(lambda self: size(kind)))
    monkeypatch.setattr(RedGreen, "outputs", property(lambda self: 7))
    encoding = Learnable() if kind in ("cait", "convit", "volo", "tnt") else PEG()
    start = saved(spread(timms(kind)), tmp_path / "theirs.pt").put({"part": "backbone"})
    recipe = Recipe(model=SPECS[kind], encoding=encoding, init=start, trainable="position")
    model = build_model_with_weights(recipe, 0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = build_optimizer(model, recipe.optimizer, no_decay(model))
    images = torch.randn(3, *size(kind), generator=torch.Generator().manual_seed(0))
    train_mode(model)
    losses = [cross_entropy(model(images), torch.tensor([0, 6, 3])) for _ in range(2)]
    assert torch.equal(*losses), "nothing is drawn in training"
    losses[0].backward()
    optimizer.step()
    moved = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert moved == position(before)
