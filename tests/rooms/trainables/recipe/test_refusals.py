"""What a recipe cannot be is refused in a sentence, with the path, what is legal, and what was given."""

import re

import pytest

from trainables.backbones.convit import ConViT
from trainables.data.augment import DeiT
from trainables.recipe import Recipe
from trainables.spec import SpecError

TRIAL = {"kind": "from_trial", "values": {}}
FILE = {"kind": "from_file", "path": "w.pt", "sha256": "0" * 64, "part": "encoding"}
TAUGHT = {"model.pool": "distilled", "teacher": TRIAL}
BCE, DEIT = {"data.kind": "cifar10", "loss.kind": "bce"}, {"augment.kind": "deit"}
STACK = {"encoding": {"kind": "peg", "form": "depthwise_stack"}}
BEFORE = [{"kind": "irpe"}, {"kind": "fourier", "injection": {"kind": "add", "places": ["query"]}}]


def of(node, **values):
    return {f"{node}.{name}": value for name, value in values.items()}


def kind(name, **values):
    return of("model", kind=name, **values)


def optimizer(**values):
    return of("optimizer", **values)


def teacher(**values):
    return {**TAUGHT, "teacher": {**TRIAL, "values": {path.replace("__", "."): one for path, one in values.items()}}}


MISTAKES = [
    ({"model.patch_size": 5}, "model.patch_size must be a divisor of the image's sides (32, 32), got 5"),
    ({"model.num_heads": 5}, "model.embed_dim must be a multiple of num_heads (5), got 64"),
    ({"model.mlp_ratio": 0.01}, "model.mlp_ratio must be such that an MLP of 64 channels has a hidden one, got 0.01"),
    ({"model.drop_path": 0.1}, "model.drop_path must be 0 where depth is 1, ... got 0.1"),
    ({"model.depth": 2, "model.drop_path": 1.0}, "model.drop_path must be a probability..."),
    ({"model.depth": 2, "model.drop_path": -0.1}, "model.drop_path must be a probability..."),
    # data
    ({"data.square": 9}, "data.square must be at most a quarter of the image (32), got 9"),
    ({"data.val_size": 7}, "data.val_size must be even: images come in mirrored pairs, got 7"),
    ({"data.task": "left"},
     "data.task must be one of direction, direction4, distance, absolute, color_shift, got 'left'"),
    (of("data", task="distance", val_size=1),
     "data.val_size must be 2 or more, because R^2 of one image is not defined, got 1"),
    (of("data", task="distance", test_size=1),
     "data.test_size must be 2 or more, because R^2 of one image is not defined, got 1"),
    (of("data", aligned=True, square=4, train_size=20, val_size=20, test_size=20) | {"model.patch_size": 8},
     "data.square must be a multiple of the patch's side (8) where data.aligned is true..."),
    ({"data": {"kind": "digits", "train_size": 1500}},
     "data.train_size must be at most 1197 of the 1,797 digits, got 1500"),
    ({"data": {"kind": "digits", "train_size": 1190}},
     "data.train_size must be 1197, or at most 1187: the digits left out need an image of each ..."),
    *(({"data": {"kind": "digits", name: 5}}, f"data.{name} must be at least 10, an image of each class, got 5")
      for name in ("train_size", "val_size", "test_size")),
    ({"data.normalize": {"kind": "mean_std", "mean": [0.5], "std": [0.5]}},
     "data.normalize.mean must be 3 numbers, got [0.5]"),
    ({"data.normalize.kind": "timm"},
     "data.normalize.kind must be auto, none or mean_std where init.kind is not from_timm, got 'timm'"),
    ({"data.normalize.kind": "x"}, "data.normalize.kind must be one of auto, none, timm, mean_std, got 'x'"),
    *(({**data, "augment.kind": one},
       f"augment.kind must be none for {name} images, whose labels would change, got '{one}'")
      for name, data in (("red_green", {}), ("digits", {"data.kind": "digits", "model.patch_size": 2}))
      for one in ("standard", "deit", "three_augment")),
    # encodings
    ({"encoding.kind": "peg", "encoding.places": [0]}, "encoding.places must be block indices from -1 to -1 in a..."),
    ({"encoding.kind": "peg", "encoding.places": [2], "model.depth": 3},
     "encoding.places must be block indices from -1 to 1 in a model of depth 3, got [2]"),
    ({"encoding.kind": "peg", "encoding.kernel": 4}, "encoding.kernel must be odd, got 4"),
    ({"encoding.kind": "sinusoidal", "model.embed_dim": 6, "model.num_heads": 1},
     "model.embed_dim must be divisible by 4 for sin..."),
    ({"encoding.kind": "fourier", "encoding.features": 7}, "encoding.features must be even, got 7"),
    ({"encoding.kind": "wavelet"}, "encoding.kind must be one of none, learnable, ..."),
    ({"encoding": {"kind": "composed", "parts": BEFORE}},
     "encoding.parts must be in an order in which q and k change before they are read, got 'irpe before fourier'"),
    # what is trained, from where, and tested
    ({"trainable": "position"}, "trainable must be 'all' where nothing of the encoding (none) learns, got 'position'"),
    ({"trainable": "position", "encoding.kind": "sinusoidal"},
     "trainable must be 'all' where nothing of the encoding (sinusoidal) learns, got 'position'"),
    *(({"trainable": "position", "encoding.kind": "fourier", **start},
       "trainable must be 'all' or 'position+head' where init gives no weights of the backbone, got 'position'")
      for start in ({}, {"init": FILE})),
    ({"init": {"kind": "from_trial", "values": {"bad": 1}}},
     "init.values must give a valid recipe: no field 'bad'; known: data, model, encoding, optimizer, "
     "init, trainable, teacher, auxiliary, test_sizes, augment, loss"),
    ({"init": {"kind": "from_trial", "values": {"data.tusk": 1}}}, "...no field 'data.tusk'..."),
    ({"init.kind": "from_trial"}, "init.values must be given"),
    ({"test_sizes": [0]}, "test_sizes must be positive sides in pixels, got [0]"),
    ({"test_sizes": [48, 32]}, "test_sizes must be sides other than the training's own (32, 32), got 32"),
    ({"test_sizes": [48, 48]}, "test_sizes must be without doubles, got [48, 48]"),
    ({"test_sizes": [48, 30]},
     "test_sizes must be such that at 30 px model.patch_size is a divisor of the image's sides (30, 30), got 4"),
    ({"test_sizes": [8], "encoding.kind": "peg", "encoding.padding": "valid"},
     "test_sizes must be such that at 8 px encoding.places is so few that some of the grid is left, got [-1]"),
    # optimizers
    (optimizer(warmup=1.0), "optimizer.warmup must be a share of all steps, 0 <= warmup < 1, got 1.0"),
    (optimizer(epochs=2.5), "optimizer.epochs must be a positive number of epochs, got 2.5"),
    *((optimizer(betas=betas), "optimizer.betas...")
      for betas in ([0.9, 1.0], [-0.1, 0.9], [0.9], [0.9, 0.95, 0.99], 0.9)),
    (optimizer(lr_base_size=0), "optimizer.lr_base_size must be a positive number of images a step, or null..."),
    *((optimizer(schedule=one, min_lr=1e-5), "optimizer.min_lr must be 0 where schedule is not cosine, got 1e-05")
      for one in ("one_cycle", "constant")),
    (optimizer(schedule="cosine", lr=1e-3, min_lr=2e-3),
     "optimizer.min_lr must be at most the highest rate (0.001), got 0.002"),
    (optimizer(schedule="cosine", lr=1e-3, lr_base_size=512, batch_size=256, min_lr=6e-4),
     "optimizer.min_lr must be at most the highest rate (0.0005), got 0.0006"),
    (optimizer(schedule="cosine", min_lr=-1e-5), "optimizer.min_lr must be a learning rate of 0 or more, got -1e-05"),
    (optimizer(lengths=[2]), "optimizer.lengths must be left out where schedule is not wsd, got [2]"),
    (optimizer(cooldown=0.1), "optimizer.cooldown must be left out where schedule is not wsd, got 0.1"),
    (optimizer(schedule="wsd", lengths=[4, 10], epochs=10),
     "optimizer.lengths must be numbers of epochs, ...below epochs (10), got [4, 10]"),
    *((optimizer(schedule="wsd", lengths=lengths), f"optimizer.lengths must be ...got {lengths}")
      for lengths in ([4, 2], [0])),
    *((optimizer(layer_decay=factor), "optimizer.layer_decay must be a factor, 0 < factor <= 1, or null...")
      for factor in (0, 1.1, -0.5)),
    *((kind(name) | {"data.image_size": 64, "optimizer.layer_decay": 0.5},
       f"optimizer.layer_decay must be null where model.kind is {name}, ... got 0.5")
      for name in ("volo", "tnt", "pvt_v2", "twins", "swin")),
    ({"init": TRIAL, "trainable": "position", "encoding.kind": "fourier", "optimizer.layer_decay": 0.5},
     "optimizer.layer_decay must be null where trainable is position..."),
    *((optimizer(ema_decay=decay), "optimizer.ema_decay must be a decay, 0 < decay < 1, or null...")
      for decay in (0.0, 1.0)),
    (optimizer(ema_warmup=True), "optimizer.ema_warmup must be false where ema_decay is null, got True"),
    *((values | {"optimizer.accumulate": 2}, "optimizer.accumulate must be 1 where a batch norm learns ... got 2")
      for values in (STACK, kind("volo"))),
    (optimizer(kind="adam"), "optimizer.kind must be one of adamw, lamb, sgd, muon, got 'adam'; did you mean adamw?"),
    (optimizer(kind="sgd", betas=[0.9, 0.99]), "no field 'optimizer.betas'..."),
    (optimizer(kind="sgd", momentum=0.0), "optimizer.nesterov must be false where momentum is 0..."),
    (optimizer(kind="muon", betas=[0.9, 1.0]), "optimizer.betas must be two numbers..."),
    # losses and teachers
    ({"loss.kind": "bce", "data.task": "distance"}, "loss.kind must be task where the data have no classes..."),
    ({**BCE, "loss.target_threshold": 1.0}, "loss.target_threshold must be a probability, 0 <= threshold < 1..."),
    ({**BCE, **DEIT, "loss.target_threshold": 0.01},
     "loss.target_threshold must be more than 0.01 and less than 0.91, what smoothing gives other classes..."),
    ({**BCE, "loss.smoothing": 0.5, "loss.target_threshold": 0.52},
     "loss.smoothing must be 0 where loss.target_threshold is given and images are not mixed..."),
    ({**BCE, **DEIT, "augment.mixup": 0, "augment.cutmix": 0, "loss.target_threshold": 0.5},
     "augment.smoothing must be 0 where loss.target_threshold is given and images are not mixed..."),
    ({**BCE, **DEIT, "loss.smoothing": 0.1},
     "loss.smoothing must be 0 where augment.kind is deit, which smooths labels itself (augment.smoothing)..."),
    ({"teacher": TRIAL}, "teacher must be none where model is not a vit with pool distilled, got 'from_trial'"),
    ({"model.pool": "distilled"},
     "teacher must be from_trial or from_file where model.pool is distilled and init is fresh, got 'none'"),
    ({**TAUGHT, "data.task": "distance"}, "teacher must be none where the data have no classes, got 'from_trial'"),
    ({**TAUGHT, "teacher.tau": 0.0}, "teacher.tau must be a positive temperature of soft distillation, or null..."),
    (teacher(data__task="direction4"),
     "teacher.values must be of a teacher of the 2 classes of direction in images of (3, 32, 32), "
     "got 'the 4 classes of direction4 in images of (3, 32, 32)'"),
    (teacher(model__patch_size=5), "teacher.values must give a valid recipe: ..."),
    (teacher(data__task="absolute"), "teacher.values must be of a teacher of the 2 classes of direction in..."),
    # backbones
    (kind("cait", patch_size=5), "model.patch_size must be a divisor of the image's sides (32, 32), got 5"),
    (kind("cait", num_heads=5), "model.embed_dim must be a multiple of num_heads (5), got 64"),
    (kind("cait") | {"encoding.kind": "irpe"},
     "encoding must be none, or what enters cait before its first block: a code or a padded convolution "
     "(its attention mixes heads and has no place for terms of pairs), got 'irpe'"),
    (kind("convit", local_up_to_layer=2), "model.local_up_to_layer must be below depth (2), got 2"),
    (kind("volo", patch_size=5), "model.patch_size must be 4, 8 or 16 (pixels a side), got 5"),
    (kind("volo", num_heads=[3, 4]), "model.embed_dims must be multiples of num_heads (3, 4), got [32, 64]"),
    (kind("volo", layers=[3]), "model.layers must be two or more numbers of blocks, got [3]"),
    (kind("volo") | {"data.image_size": 36}, "model.patch_size must be such that twice its side divides..."),
    (kind("tnt", num_heads_inner=3), "model.inner_dim must be a multiple of num_heads_inner (3), got 16"),
    (kind("pvt_v2", embed_dims=[8]), "model.embed_dims must be as many numbers as depths (2), got [8]"),
    (kind("pvt_v2", num_heads=[1, 3]),
     "model.num_heads must be divisors of the stages' channels (32, 64), got [1, 3]"),
    (kind("twins", patch_size=32),
     "model.depths must be such that images of (32, 32) pixels can be cut and halved (sides: multiples of 64), "
     "got [2, 2]"),
    (kind("twins", pool="token"), "model.pool must be avg where peg is true, or where the last of sr_ratios..."),
    (kind("twins", peg=False, pool="token", sr_ratios=[2, 2]), "model.pool must be avg where peg is true, or..."),
    (kind("twins", sr_ratios=[3, 1]), "model.sr_ratios must be divisors of the stages' sides, here (8, 8), got..."),
    (kind("swin", window_size=3),
     "model.window_size must be a divisor of the stages' sides, or larger, here (8, 8), got 3"),
    (kind("bit"),
     "model.kind must be one of vit, cait, convit, ..., twins, timm, or file.py:Class, got 'bit'; did you mean vit?"),
]  # fmt: skip
"""Values that are put, and the whole sentence; `...` stands for further words."""


def test_mistakes_are_told_in_one_sentence(subtests):
    for values, sentence in MISTAKES:
        with subtests.test(str(values)):
            with pytest.raises(SpecError) as caught:
                Recipe().put(values)
            assert re.fullmatch(".*".join(map(re.escape, sentence.split("..."))), str(caught.value)), str(caught.value)


def test_what_is_legal_beside_a_mistake_is_taken():
    """A threshold of 0 keeps one right class where nothing gives the others a share."""
    for legal in ({**DEIT, "augment.smoothing": 0.0}, {"augment.kind": "three_augment"}, {}):
        assert Recipe().put({**BCE, **legal, "loss.target_threshold": 0.0}).loss.target_threshold == 0.0
    sizes = of("data", aligned=True, square=4, train_size=20, val_size=20, test_size=20)
    for values in ({**sizes, "model.patch_size": 2}, {**sizes, "data.aligned": False, "model.patch_size": 8}):
        assert Recipe().put(values).data.square == 4
    assert Recipe().put({"encoding": {"kind": "peg", "places": [-1, 1]}, "model.depth": 3}).encoding.places == (-1, 1)
    with pytest.raises(Exception, match=r"must be one of the others where the image is not square \(16, 24\)"):
        ConViT().check((3, 16, 24))
    with pytest.raises(SpecError, match=r"^color_jitter must be 0 where rand is given, .*, got 0\.3$"):
        DeiT(color_jitter=0.3)
