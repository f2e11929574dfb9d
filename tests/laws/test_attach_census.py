"""Which models of timm take an encoding: each name worked, was refused in a sentence, or is wrong."""

import copy
import warnings
from collections import Counter

import pytest
import timm
import torch
from timm.models.eva import Eva
from timm.models.vision_transformer import VisionTransformer

from trainables.encodings import PEG, Fourier, Learnable, NoEncoding, RelativeBias, Rotary
from trainables.rng_torch import torch_stream
from trainables.spec import SpecError
from trainables.training.attach import attach

LEARNING = (Rotary(form="mixed"), PEG(), Fourier(gamma=1.0), RelativeBias())
"""Encodings with parameters that act before the first block, and in attention on queries and keys, and on logits."""

NARROW = {"embed_dim": 96, "num_heads": 4}
FEWER = ({}, {"num_kv_heads": 2}, {"num_kv_heads": None})


def made(name, **more):
    """A model of timm with two blocks, as narrow as its function makes it."""
    for options in [NARROW | fewer for fewer in FEWER] + [*FEWER]:
        try:
            return timm.create_model(name, depth=2, **options | more)
        except (AssertionError, RuntimeError, TypeError, ValueError):
            continue
    raise LookupError(name)


def smaller(name):
    """A model on 3 x 5 patches, whose weights are so large that each part changes its outputs."""
    with torch.device("meta"):
        side = made(name).patch_embed.feat_ratio()
    model = made(name, img_size=(3 * side, 5 * side), num_classes=3).double().eval()
    for place, value in model.named_parameters():
        std = 0.3 if value.ndim < 2 or "pos_embed" in place else value[0].numel() ** -0.5
        torch.nn.init.normal_(value, mean=float(value.ndim == 1 and "bias" not in place), std=std)
    return model


def pictures(model, rows=3, columns=5):
    side = model.patch_embed.feat_ratio()
    size = (2, 3, rows * side, columns * side)
    return torch.randn(size, dtype=torch.float64, generator=torch_stream(0, "pictures"))


def shuffled(model, images):
    """The output of a model whose patches come in another order."""
    order = torch.randperm(15, generator=torch_stream(0, "order"))
    with model.patch_embed.register_forward_hook(
        lambda layer, given, x: (x.flatten(1, 2) if x.ndim == 4 else x)[:, order].reshape(x.shape)
    ):
        return model(images)


def filled(known, keep):
    """The model with a learned table in which timm's own stands."""
    attached = attach(copy.deepcopy(known), Learnable(), keep=keep)
    places = attached.encoding.part("learnable").table.zero_()
    if known.pos_embed is not None:
        places[len(places) - known.pos_embed.shape[1] :].copy_(known.pos_embed[0])
    return attached


def check(name):
    """Holds a model to all that an attached one must do. Raises: SpecError where it is refused."""
    torch.manual_seed(0)
    known = smaller(name)
    images, rope = pictures(known), getattr(known, "rope", None) is not None
    with torch.inference_mode():
        table = filled(known, "rope" if rope else "nothing")
        torch.testing.assert_close(table(images), known(images))
        larger = copy.deepcopy(known)
        for model in (larger, table):
            model.set_input_size(pictures(known, 4, 6).shape[-2:])
        torch.testing.assert_close(table(pictures(known, 4, 6)), larger(pictures(known, 4, 6)))
        bare = attach(copy.deepcopy(known), NoEncoding())
        assert not any("pos_embed" in place or place.startswith("rope") for place in bare.state_dict())
        torch.testing.assert_close(shuffled(bare, images), bare(images))
        assert (known.pos_embed is None and not rope) or not torch.allclose(bare(images), known(images), rtol=1e-3)
    for encoding in LEARNING:
        model, other = (attach(copy.deepcopy(known), encoding, seed=seed) for seed in (0, 1))
        for value in model.encoding.parameters():
            torch.nn.init.normal_(value)
        output = model(images)
        assert not torch.allclose(shuffled(model, images), output, rtol=1e-3), f"{encoding} does not act"
        output[:, 0].sum().backward()
        assert all(value.grad.any() for value in model.encoding.parameters()), f"{encoding} does not learn"
        other.load_state_dict(model.state_dict())
        assert torch.equal(other(images), output), f"{encoding} is not in the weights"
        features, maps = model.forward_intermediates(images, indices=1, norm=True)
        assert maps[0].shape[-2:] == (3, 5)
        torch.testing.assert_close(model.forward_features(images), features)


def verdict(name):
    """Whether a model worked, was refused, or is wrong; and why."""
    try:
        check(name)
    except SpecError as error:
        return "wrong" if "\n" in str(error) else "refused", str(error)
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {error}"
    return "worked", ""


def refusal(name):
    """What a model of another class is told; nothing of one that `attach` takes. It is made without numbers."""
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = timm.create_model(name)
    if isinstance(model, VisionTransformer | Eva):
        return type(model).__name__, ""
    with pytest.raises(SpecError) as error:
        attach(model, "rotary")
    return type(model).__name__, str(error.value)


@pytest.mark.parametrize("name", ["vit_base_patch16_clip_224", "vit_small_patch16_dinov3", "eva02_tiny_patch14_224"])
def test_models_that_many_use_take_an_encoding(name):
    assert verdict(name) == ("worked", "")


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_the_census_of_all_of_timm():
    """Differential attention alone is refused of the classes that take an encoding, and no other class is one."""
    outcomes, wrong = Counter(), {}
    for name in timm.list_models():
        kind, said = refusal(name)
        outcome, why = ("refused", said) if said else verdict(name)
        outcomes[kind if not said else "another class", outcome] += 1
        wrong |= {name: why} if outcome == "wrong" else {}
        assert outcome != "refused" or (" must " in why and "\n" not in why)
    print(outcomes)
    assert wrong == {}
    assert outcomes["VisionTransformer", "worked"] >= 199
    assert outcomes["VisionTransformer", "refused"] <= 3
    assert (outcomes["Eva", "worked"], outcomes["Eva", "refused"]) >= (65, 0)
    assert outcomes["VisionTransformerDistilled", "worked"] >= 4
