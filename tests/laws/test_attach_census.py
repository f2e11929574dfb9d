"""Which models of timm take an encoding: each name worked, was refused in a sentence, or would be wrong."""

import copy
import warnings

import timm
import torch
from timm.models.eva import Eva

from trainables.encodings import PEG, Fourier, Learnable, NoEncoding, RelativeBias, Rotary
from trainables.rng_torch import torch_stream
from trainables.spec import SpecError
from trainables.training.attach import attach

LEARNING = (Rotary(form="mixed"), PEG(), Fourier(gamma=1.0), RelativeBias())
"""Encodings that act before the first block, before another, and in attention, all with parameters."""


def smaller(name, **more):
    """A model of timm with two blocks, as narrow as it can be built, on 3 x 5 patches."""
    with torch.device("meta"):
        known = timm.create_model(name, **{"depth": 2} | more)
    side = known.patch_embed.feat_ratio()
    more |= {"depth": 2, "img_size": (3 * side, 5 * side), "num_classes": 3}
    if isinstance(known, Eva) and known.blocks[0].attn.__class__.__name__ == "AttentionRope":
        more["num_kv_heads"] = 2
    for narrow in ({"embed_dim": 64, "num_heads": 4}, {"embed_dim": 64, "num_heads": 4, "num_kv_heads": None}, {}):
        try:
            model = timm.create_model(name, **more | narrow)
            break
        except (AssertionError, TypeError, RuntimeError, ValueError):
            continue
    for place, value in model.named_parameters():
        torch.nn.init.normal_(value, std=0.3, generator=torch_stream(0, place))
    return model.double().eval()


def pictures(model, rows=3, columns=5):
    side = model.patch_embed.feat_ratio()
    size = (2, 3, rows * side, columns * side)
    return torch.rand(size, dtype=torch.float64, generator=torch_stream(0, "pictures"))


def shuffled(model, images):
    """The output of a model whose patches come in another order."""
    order = torch.randperm(15, generator=torch_stream(0, "order"))

    def shuffle(layer, given, output):
        if output.ndim == 4:
            return output.flatten(1, 2)[:, order].reshape(output.shape)
        return output[:, order]

    with model.patch_embed.register_forward_hook(shuffle):
        return model(images)


def check(name):
    """Holds a model to all that an attached one must do. Raises: SpecError where it is refused."""
    known = smaller(name)
    images, expected = pictures(known), None
    rope = getattr(known, "rope", None) is not None
    with torch.inference_mode():
        expected = known(images)
        table = attach(copy.deepcopy(known), Learnable(), keep="rope" if rope else "nothing")
        places, own = table.encoding.part("learnable").table, known.pos_embed
        places.zero_()
        if own is not None:
            places[len(places) - own.shape[1] :].copy_(own[0])
        torch.testing.assert_close(table(images), expected)
        larger = copy.deepcopy(known)
        for model in (larger, table):
            model.set_input_size((pictures(known, 4, 6)).shape[-2:])
        torch.testing.assert_close(table(pictures(known, 4, 6)), larger(pictures(known, 4, 6)))
        bare = attach(copy.deepcopy(known), NoEncoding())
        assert not any("pos_embed" in place or place.startswith("rope") for place in bare.state_dict())
        torch.testing.assert_close(shuffled(bare, images), bare(images))
        if own is not None or rope:
            assert not torch.allclose(bare(images), expected, rtol=1e-3)
    for encoding in LEARNING:
        model, other = (attach(copy.deepcopy(known), encoding, seed=seed) for seed in (0, 1))
        for place, value in model.encoding.named_parameters():
            torch.nn.init.normal_(value, generator=torch_stream(1, place))
        assert not torch.allclose(shuffled(model, images), model(images), rtol=1e-3), encoding
        model(images)[:, 0].sum().backward()
        assert all(value.grad.any() for value in model.encoding.parameters()), encoding
        other.load_state_dict(model.state_dict())
        assert torch.equal(other(images), model(images)), encoding
        features, maps = model.forward_intermediates(images, indices=1, norm=True)
        assert maps[0].shape[-2:] == (3, 5)
        torch.testing.assert_close(model.forward_features(images), features)


def verdict(name):
    """Whether a model worked, was refused, or is wrong; and why."""
    try:
        check(name)
    except SpecError as error:
        return "refused" if "\n" not in str(error) else "wrong", str(error)
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {str(error)[:300]}"
    return "worked", ""


def kinds():
    """The names of models by their class."""
    found = {}
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in timm.list_models():
            found[name] = timm.create_model(name)
    return found
