"""Weights from elsewhere: a model of timm's, written to a file, computes the same in ours, or is refused by name."""

import hashlib

import pytest
import timm
import torch
from timm.models.deit import VisionTransformerDistilled
from timm.models.vision_transformer import VisionTransformer
from torch.nn.functional import interpolate

from tests.anchors.backbones import SPECS, TABLES, size, spread, timms
from trainables.backbones import ViT
from trainables.data import RedGreen
from trainables.data.splits_torch import load
from trainables.encodings import PEG, Add, Composed, Concat, Fourier, Gabor, Learnable, NoEncoding
from trainables.recipe import AdamW, Fresh, FromFile, FromTimm, NoTeacher, Recipe, Run, TaughtByTrial
from trainables.spec import LocusError, SpecError
from trainables.training.checkpoint import WEIGHTS, read, recorded_sources
from trainables.training.evaluation import compute_metric, metric_sums
from trainables.training.loop import build_model_with_weights, train
from trainables.weights import pretrained
from trainables.weights.transfer import at_size, resized

SIDES = {"embed_dim": 16, "depth": 2, "num_heads": 2, "patch_size": 4, "num_classes": 2}


def theirs(size=(16, 16), make=VisionTransformer, **knobs):
    """A model of timm's with every weight drawn at random."""
    model = make(img_size=size, **SIDES | knobs)
    for number, value in enumerate(model.parameters()):
        torch.nn.init.normal_(value, std=0.3, generator=torch.Generator().manual_seed(number))
    return model.eval()


def saved(model, folder):
    path = folder / "theirs.pt"
    torch.save({"model": model.state_dict()}, path)
    return FromFile(str(path), hashlib.sha256(path.read_bytes()).hexdigest())


def recipe(encoding, start, pool="token", image=16, **model):
    spec = ViT(embed_dim=16, depth=2, num_heads=2, patch_size=4, pool=pool).put(model)
    teacher = TaughtByTrial(values={}) if pool == "distilled" else NoTeacher()
    return Recipe(data=RedGreen(image_size=image), model=spec, encoding=encoding, init=start, teacher=teacher)


def images(rows=16, columns=16):
    return torch.randn(3, 3, rows, columns, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize(("knobs", "pool"), [
    ({}, "token"),
    ({"no_embed_class": True}, "token"),
    ({"make": VisionTransformerDistilled}, "distilled"),
    ({"global_pool": "avg", "class_token": False, "fc_norm": True}, "avg"),
    ({"global_pool": "avg", "class_token": False, "fc_norm": False}, "gap"),
])  # fmt: skip
def test_a_table_and_its_backbone_compute_what_they_did(tmp_path, knobs, pool):
    model = theirs(**knobs)
    for encoding in (Learnable(), Composed(parts=(PEG(places=()), Learnable(injection=Add(blocks=1))))):
        ours = build_model_with_weights(recipe(encoding, saved(model, tmp_path), pool), 0).eval()
        assert torch.allclose(ours(images()), model(images()), atol=1e-6)


def test_the_table_is_found_among_others(tmp_path):
    """Not the one of queries, nor one with rows of its own for each block."""
    others = (Learnable(injection=Add(places=("query",))), Learnable(injection=Add(blocks=2, shared=False)))
    parts = (*others, Learnable(), Gabor())
    model = theirs()
    spec = recipe(Composed(parts=parts), saved(model, tmp_path))
    ours, drawn = (
        build_model_with_weights(spec, 0).state_dict(),
        build_model_with_weights(spec.put({"init": Fresh()}), 0).state_dict(),
    )
    assert torch.equal(ours["encoding.learnable_3.table"], model.pos_embed[0])
    same = {name for name, value in ours.items() if name.startswith("encoding.") and torch.equal(value, drawn[name])}
    assert same == {name for name in ours if name.startswith("encoding.")} - {"encoding.learnable_3.table"}


@pytest.mark.parametrize("part", ["backbone", "all"])
def test_without_a_place_for_the_table_it_is_dropped(tmp_path, part):
    model = theirs()
    start = saved(model, tmp_path).put({"part": part})
    bare = build_model_with_weights(recipe(NoEncoding(), start), 0).eval()
    gabor = build_model_with_weights(recipe(Gabor(), start), 0).eval()
    torch.nn.init.zeros_(model.pos_embed)
    assert torch.allclose(bare(images()), model(images()), atol=1e-6)
    drawn = build_model_with_weights(recipe(Gabor(), Fresh()), 0)
    for name, value in gabor.state_dict().items():
        expected = drawn.state_dict() if name.startswith("encoding.") else model.state_dict()
        assert torch.equal(value, expected[name]), name


def test_position_learns_on_a_frozen_backbone(tmp_path):
    """The Gabor paper's setting: after training the backbone is the file's bit for bit, and position moved."""
    model = theirs()
    spec = recipe(Gabor(injection=Add(places=("query", "key"))), saved(model, tmp_path).put({"part": "backbone"}))
    data = RedGreen(image_size=16, train_size=60, val_size=20, test_size=20)
    spec = spec.put({"trainable": "position", "data": data, "optimizer": AdamW(epochs=2, batch_size=20, lr=0.01)})
    list(train(Run(recipe=spec, seed=0), tmp_path))
    drawn = build_model_with_weights(spec, 0).state_dict()
    for name, value in read(tmp_path / WEIGHTS).items():
        if name.startswith("encoding."):
            assert not torch.equal(value, drawn[name]), name
        else:
            assert torch.equal(value, model.state_dict()[name]), name


def test_the_encoding_alone_is_the_table(tmp_path):
    model, spec = theirs(), recipe(Learnable(), Fresh())
    child = build_model_with_weights(spec.put({"init": saved(model, tmp_path).put({"part": "encoding"})}), 0)
    drawn = build_model_with_weights(spec, 0).state_dict()
    for name, value in child.state_dict().items():
        assert torch.equal(value, model.pos_embed[0] if name == "encoding.learnable.table" else drawn[name]), name


def test_the_average_of_a_training_scripts_file_is_taken_where_it_is_asked_for(tmp_path):
    raw = theirs().state_dict()
    averaged = {name: value + 1 for name, value in raw.items()}
    path = tmp_path / "checkpoint.pth"
    torch.save({"model": raw, "model_ema": averaged}, path)
    start = FromFile(str(path), hashlib.sha256(path.read_bytes()).hexdigest())
    keys = set()
    for entry, expected in (("model", raw), ("model_ema", averaged)):
        spec = recipe(Learnable(), start.put({"entry": entry}))
        keys.add(Run(spec, 0).key)
        child = build_model_with_weights(spec, 0).state_dict()
        assert torch.equal(child["encoding.learnable.table"], expected["pos_embed"][0])
        assert all(torch.equal(child[name], expected[name]) for name in child if name in expected)
    assert len(keys) == 2
    assert "entry" not in start.identity()
    with pytest.raises(LocusError, match=r"^init\.entry must be 'model' or 'model_ema', the models in .*, got None$"):
        build_model_with_weights(recipe(Learnable(), start), 0)


def test_what_pre_training_alone_needs_is_left_out_and_said(tmp_path):
    """MAE's decoder and DINO's head; the file's other model, too."""
    model = theirs()
    extra = {
        "mask_token": torch.ones(1, 1, 8),
        "decoder_embed.weight": torch.ones(8, 16),
        "decoder_norm.bias": torch.ones(8),
    }
    mae = tmp_path / "mae.pth"
    torch.save({"model": model.state_dict() | extra}, mae)
    student = {f"module.backbone.{name}": value + 1 for name, value in model.state_dict().items()}
    teacher = {f"backbone.{name}": value for name, value in model.state_dict().items()}
    dino, head = tmp_path / "dino.pth", {"head.mlp.0.weight": torch.ones(2, 2)}
    torch.save({"student": student, "teacher": teacher | head, "dino_loss": {"center": torch.ones(1, 2)}}, dino)
    for path, entry, found, left_out in [
        (mae, None, "model", ["decoder_embed", "decoder_norm", "mask_token"]),
        (dino, "teacher", "teacher.backbone", ["dino_loss", "student", "teacher.head"]),
    ]:
        start = FromFile(str(path), hashlib.sha256(path.read_bytes()).hexdigest(), entry=entry)
        sources = {}
        ours = build_model_with_weights(recipe(Learnable(), start), 0, sources=sources).eval()
        assert torch.allclose(ours(images()), model(images()), atol=1e-6)
        assert sources == {"init_entry": found, "init_left_out": left_out}


def test_register_tokens_have_a_place_where_the_recipe_has_as_many(tmp_path):
    """Their rows of the table, too: of all prefix tokens, or of none as `no_embed_class` has it."""
    spec = {"registers": 3, "layer_scale": 0.1, "qk_norm": True}
    for knobs, pool in (
        ({}, "token"),
        ({"no_embed_class": True}, "token"),
        ({"global_pool": "avg", "class_token": False}, "avg"),
        ({"global_pool": "avg", "class_token": False, "no_embed_class": True, "fc_norm": False}, "gap"),
    ):
        model = theirs(reg_tokens=3, init_values=0.1, qk_norm=True, **knobs)
        start = saved(model, tmp_path)
        for encoding in (Learnable(), NoEncoding()):
            ours = build_model_with_weights(recipe(encoding, start, pool, **spec), 0).eval()
            assert torch.allclose(ours(images()), model(images()), atol=1e-5)
            torch.nn.init.zeros_(model.pos_embed)


def test_rows_of_registers_stay_theirs_where_the_class_token_goes(tmp_path):
    """A table of a class token, 3 registers and 4 x 4 patches, on our 6 x 6: without the class token, or with two."""
    model = theirs(reg_tokens=3)
    table, start = model.pos_embed[0].detach(), saved(model, tmp_path)
    for pool, first in (("gap", 0), ("token", 1), ("distilled", 2)):
        start = start.put({"part": "encoding"}) if pool == "distilled" else start
        ours = build_model_with_weights(recipe(Learnable(), start, pool, 24, registers=3), 0)
        mine = ours.encoding.learnable.table.detach()
        kept = min(first, 1)
        assert torch.equal(mine[:kept], table[:kept])
        assert not mine[kept:first].any()
        assert torch.equal(mine[first : first + 3], table[1:4])
        patches = interpolate(table[4:].T.reshape(1, 16, 4, 4), (6, 6), mode="bicubic", align_corners=False)
        assert torch.allclose(mine[first + 3 :], patches[0].flatten(1).T, atol=1e-6)


def test_metas_registers_are_timms(tmp_path):
    """DINOv2's files: the class token alone has a row in the table; timm gives it to none."""
    model = theirs(reg_tokens=3, no_embed_class=True)
    row = torch.randn(1, 1, 16)
    table, weights = torch.cat([row, model.pos_embed], dim=1), model.state_dict()
    weights |= {"pos_embed": table, "mask_token": torch.ones(1, 16), "register_tokens": weights.pop("reg_token")}
    path = tmp_path / "dinov2.pth"
    torch.save(weights, path)
    start = FromFile(str(path), hashlib.sha256(path.read_bytes()).hexdigest())
    ours = build_model_with_weights(recipe(Learnable(), start, registers=3), 0).eval()
    with torch.no_grad():
        model.cls_token += row
    assert torch.allclose(ours(images()), model(images()), atol=1e-6)


def test_register_tokens_without_a_place_are_named_before_the_table_is_measured(tmp_path):
    start = saved(theirs(reg_tokens=4), tmp_path)
    said = "has a place for, got reg_token, register tokens, which a vit has where model.registers is their number$"
    with pytest.raises(SpecError, match=said):
        build_model_with_weights(recipe(Learnable(), start), 0)
    with pytest.raises(SpecError, match=r"with reg_token of shape \(1, 3, 16\), got shape \(1, 4, 16\)$"):
        build_model_with_weights(recipe(Learnable(), start, registers=3), 0)
    with pytest.raises(SpecError, match=r"with reg_token of shape \(1, 3, 16\), got none$"):
        build_model_with_weights(recipe(Learnable(), saved(theirs(), tmp_path), registers=3), 0)


@pytest.mark.parametrize("pool", ["token", "distilled", "gap"])
@pytest.mark.parametrize(("size", "ours"), [((16, 16), (12, 28)), ((24, 24), (12, 40)), ((12, 28), (12, 28))])
def test_a_table_of_another_grid_is_resampled(tmp_path, monkeypatch, size, ours, pool):
    """4 x 4 to 3 x 7; 6 x 6 to 3 x 10; 3 x 7 to the same."""
    monkeypatch.setattr(RedGreen, "size", property(lambda self: (3, *ours)))
    model = theirs(size, make=VisionTransformerDistilled) if pool == "distilled" else theirs(size)
    child = build_model_with_weights(recipe(Learnable(), saved(model, tmp_path), pool), 0)
    prefix = model.num_prefix_tokens
    rows, columns = (side // 4 for side in size)
    image = model.pos_embed[0, prefix:].T.reshape(1, 16, rows, columns)
    new = tuple(side // 4 for side in ours)
    moved = image if new == (rows, columns) else interpolate(image, new, mode="bicubic", align_corners=False)
    kept = model.pos_embed[0, : {"token": 1, "distilled": 2, "gap": 0}[pool]]
    assert torch.allclose(child.encoding.learnable.table, torch.cat([kept, moved[0].flatten(1).T]), atol=1e-6)


@pytest.mark.parametrize("theirs_is", [(24, 24), (12, 48)])
def test_a_table_that_is_as_well_a_square_is_not_taken_for_ours(tmp_path, monkeypatch, theirs_is):
    """36 rows may be 6 x 6 or 3 x 12."""
    monkeypatch.setattr(RedGreen, "size", property(lambda self: (3, 12, 48)))
    start = saved(theirs(theirs_is), tmp_path)
    must = r"^init\.part must be 'backbone' where a table may be one of 6 x 6 patches and of 3 x 12, got 37 rows$"
    with pytest.raises(SpecError, match=must):
        build_model_with_weights(recipe(Learnable(), start), 0)
    drawn = build_model_with_weights(recipe(Learnable(), Fresh()), 0)
    child = build_model_with_weights(recipe(Learnable(), start.put({"part": "backbone"})), 0)
    assert torch.equal(child.encoding.learnable.table, drawn.encoding.learnable.table)


def test_a_head_of_other_classes_stays_as_drawn(tmp_path):
    start = saved(theirs(num_classes=7, make=VisionTransformerDistilled), tmp_path)
    child = build_model_with_weights(recipe(Learnable(), start, "distilled"), 0).state_dict()
    drawn = build_model_with_weights(recipe(Learnable(), Fresh(), "distilled"), 0).state_dict()
    for name in ("head.weight", "head.bias", "head_dist.weight", "head_dist.bias"):
        assert torch.equal(child[name], drawn[name])


@pytest.mark.parametrize(
    ("knobs", "part", "said"),
    [
        ({"patch_size": 8}, "all", r"patch_embed\.proj\.weight of shape \(16, 3, 4, 4\), got shape \(16, 3, 8, 8\)"),
        ({"in_chans": 1}, "backbone", r"patch_embed\.proj\.weight of shape \(16, 3, 4, 4\), got shape \(16, 1, 4, 4\)"),
        ({"embed_dim": 24}, "all", r"with cls_token of shape \(1, 1, 16\), got shape \(1, 1, 24\)"),
        ({"depth": 3}, "all", r"weights that this model has a place for, got blocks\.2\.norm1\.weight"),
        ({"depth": 1}, "all", r"with blocks\.1\.norm1\.weight of shape \(16,\), got none"),
        ({"init_values": 0.1}, "backbone", r"weights that this model has a place for, got blocks\.0\.ls1\.gamma"),
        ({}, "encoding", r"with encoding\.gabor\.offset of shape \(16,\), got none"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, knobs, part, said):
    start = saved(theirs(**knobs), tmp_path).put({"part": part})
    with pytest.raises(SpecError, match="init.path must name a file .*" + said):
        build_model_with_weights(recipe(Gabor(), start), 0)


def test_a_table_of_no_known_grid_is_refused(tmp_path):
    start = saved(theirs((12, 28)), tmp_path)
    with pytest.raises(SpecError, match="init must give a table of a square grid, or of one of 4 x 4, got 22 rows"):
        build_model_with_weights(recipe(Learnable(), start), 0)


def test_what_our_own_engine_wrote_is_taken(tmp_path):
    parent = build_model_with_weights(recipe(Composed(parts=(Learnable(), Fourier())), Fresh()), 1)
    start = saved(parent, tmp_path)
    child = build_model_with_weights(recipe(Composed(parts=(Learnable(), Fourier())), start), 0).state_dict()
    assert all(torch.equal(child[name], value) for name, value in parent.state_dict().items())
    fourier = build_model_with_weights(recipe(Fourier(), start), 0).state_dict()
    assert all(torch.equal(value, parent.state_dict()[name]) for name, value in fourier.items())


def test_channels_that_position_takes_are_refused_for_timms_weights_when_the_recipe_is_made():
    start = FromTimm("deit_tiny_patch16_224.fb_in1k")
    with pytest.raises(SpecError, match=r"init\.kind must be fresh, from_trial or from_file where position takes chan"):
        recipe(Learnable(injection=Concat()), start)
    recipe(Learnable(injection=Concat()), start.put({"part": "encoding"}))


@pytest.mark.parametrize("places", [("common",), ("query", "key"), ("value",)])
def test_a_file_of_a_model_in_which_position_takes_channels_is_taken(tmp_path, places):
    """Of our own; timm's layers are wider, so a file of timm's is refused when it is read."""
    encoding = Learnable(injection=Concat(places=places))
    parent = build_model_with_weights(recipe(encoding, Fresh()), 1)
    child = build_model_with_weights(recipe(encoding, saved(parent, tmp_path)), 0).state_dict()
    assert all(torch.equal(child[name], value) for name, value in parent.state_dict().items())
    with pytest.raises(SpecError, match=r"init\.path must name a file with .* of shape .*, got shape"):
        build_model_with_weights(recipe(encoding, saved(theirs(), tmp_path).put({"part": "backbone"})), 0)


def test_timm_is_asked_by_name(monkeypatch):
    monkeypatch.setattr(pretrained.timm, "create_model", lambda name, pretrained: theirs())
    ours = build_model_with_weights(recipe(Learnable(), FromTimm("deit_tiny_patch16_224.fb_in1k")), 0).eval()
    assert torch.allclose(ours(images()), theirs()(images()), atol=1e-6)
    with pytest.raises(SpecError, match=r"init\.name must be one of .* such as deit_tiny_.*, got 'deit_tiny'"):
        build_model_with_weights(recipe(Learnable(), FromTimm("deit_tiny")), 0)


def test_timms_weights_are_known_by_their_content(monkeypatch, tmp_path):
    """A changed upload is refused where the recipe names the content, and recorded in any case."""
    monkeypatch.setattr(pretrained.timm, "create_model", lambda name, pretrained: theirs())
    init = FromTimm("deit_tiny_patch16_224.fb_in1k", sha256=pretrained.checksum(theirs().state_dict()))
    spec = recipe(Learnable(), init).put({"optimizer.epochs": 1, "data.train_size": 20, "data.val_size": 4})
    list(train(Run(recipe=spec, seed=0), tmp_path))
    found = recorded_sources(tmp_path)
    said = {"init_mean": [0.485, 0.456, 0.406], "init_std": [0.229, 0.224, 0.225], "init_image_size": [224, 224]}
    assert found == {"init_sha256": init.sha256, **said}
    other = theirs()
    with torch.no_grad():
        other.head.bias[0] += 1e-6
    monkeypatch.setattr(pretrained.timm, "create_model", lambda name, pretrained: other)
    with pytest.raises(
        LocusError, match=f"must have the SHA-256 {init.sha256}, got {pretrained.checksum(other.state_dict())}"
    ):
        build_model_with_weights(spec, 0)
    build_model_with_weights(spec.put({"init": FromTimm(init.name)}), 0)


MEAN, STD = torch.tensor([0.485, 0.456, 0.406])[:, None, None], torch.tensor([0.229, 0.224, 0.225])[:, None, None]


@pytest.mark.parametrize("side", [None, 32])
def test_a_pretrained_model_sees_pixels_as_timm_normalizes_them(monkeypatch, tmp_path, side):
    """Also resized ones: the model of timm's scores what ours does, and other numbers without the mean and std."""
    monkeypatch.setattr(pretrained.timm, "create_model", lambda name, pretrained: theirs())
    spec = recipe(NoEncoding(), FromTimm("deit_tiny_patch16_224.fb_in1k"), "token")
    spec = spec.put({"optimizer.epochs": 1, "optimizer.lr": 1e-12, "data.train_size": 20, "data.task": "distance"})
    spec = spec.put({"data.val_size": 20, "data.test_size": 20, "test_sizes": [32]})
    name = "test/r2" if side is None else "test/r2_at_32"
    found = {
        how: list(train(Run(recipe=spec.put({"data.normalize.kind": how}), seed=0), made(tmp_path / how)))[-1].values[
            name
        ]
        for how in ("auto", "timm", "none")
    }
    assert found["auto"] == found["timm"] != found["none"]
    model, test = theirs(), load(spec.data).test
    torch.nn.init.zeros_(model.pos_embed)
    pixels, targets = test.batch(slice(None), torch.float32)
    if side is not None:
        ours = at_size(build_model_with_weights(spec, 0), spec, side).eval()
        pixels = resized(pixels, side)
        outputs = {"auto": ours((pixels - MEAN) / STD), "none": ours(pixels)}
    else:
        outputs = {"auto": model((pixels - MEAN) / STD), "none": model(pixels)}
    for how, predicted in outputs.items():
        expected = compute_metric("r2", metric_sums("r2", predicted.detach(), targets), targets)
        assert found[how] == pytest.approx(expected, rel=1e-4)


def made(path):
    path.mkdir()
    return path


def test_without_a_network_timm_says_what_to_do(monkeypatch):
    def fails(name, pretrained):
        raise OSError("no route\nto host")

    monkeypatch.setattr(timm, "create_model", fails)
    name = "deit_tiny_patch16_224.fb_in1k"
    said = rf"timm's weights of {name} could not be fetched \(no route\); give init\.kind from_file with a checkpoint"
    with pytest.raises(LocusError, match=said):
        build_model_with_weights(recipe(Learnable(), FromTimm(name)), 0)


@pytest.mark.parametrize("kind", SPECS)
def test_every_backbone_takes_timms_weights(kind, tmp_path, monkeypatch):
    """Its table becomes our code's, where it has one."""
    monkeypatch.setattr(RedGreen, "size", property(lambda self: size(kind)))
    monkeypatch.setattr(RedGreen, "outputs", property(lambda self: 7))
    model = spread(timms(kind)).eval()
    encoding = Learnable() if kind in TABLES else NoEncoding()
    whole = Recipe(model=SPECS[kind], encoding=encoding, init=saved(model, tmp_path))
    inputs = torch.randn(3, *size(kind), generator=torch.Generator().manual_seed(5))
    assert torch.allclose(build_model_with_weights(whole, 0).eval()(inputs), model(inputs), atol=1e-4)
    bare = build_model_with_weights(whole.put({"encoding": NoEncoding()}), 0).eval()
    assert torch.allclose(bare(inputs), model(inputs), atol=1e-4) == (kind not in TABLES)


@pytest.mark.parametrize(("kind", "without"), [("twins", {"peg": False}), ("swin", {"relative_bias": False})])
def test_position_of_its_own_may_be_left_out(kind, without, tmp_path, monkeypatch):
    monkeypatch.setattr(RedGreen, "size", property(lambda self: size(kind)))
    monkeypatch.setattr(RedGreen, "outputs", property(lambda self: 7))
    model = spread(timms(kind)).eval()
    child = build_model_with_weights(
        Recipe(model=SPECS[kind].put(without), init=saved(model, tmp_path)), 0
    ).state_dict()
    given = model.state_dict()
    assert all(torch.equal(value, given[name]) for name, value in child.items())
    assert given.keys() - child.keys()
