"""The model and the encoding that a page writes in Python are the very ones of the study."""

import html
from types import SimpleNamespace
from typing import Any

import torch

import service
from service.reporting.page import command, snippet, written
from tests.laws.conftest import EXAMPLES
from trainables.encodings import OwnEncoding
from trainables.recipe import Recipe
from trainables.recipe.model_torch import build_model


def test_the_lines_make_the_model_of_the_study():
    for options in (
        {},
        {"pool": "avg"},
        {"pool": "gap"},
        {"registers": 4},
        {"layer_scale": 0.1},
        {"qk_norm": True},
        {"drop_path": 0.25},
        {"registers": 2, "layer_scale": 1e-4, "qk_norm": True, "drop_path": 0.1},
    ):
        small = {"data.kind": "cifar10", "model.embed_dim": 16, "model.num_heads": 2, "model.depth": 2}
        recipe = Recipe().put(small | {f"model.{name}": value for name, value in options.items()})
        made: dict[str, Any] = {}
        exec(snippet(SimpleNamespace(best=SimpleNamespace(recipe=recipe))), made)
        own, timms = build_model(recipe), made["model"]
        shapes, others = ({name: value.shape for name, value in one.state_dict().items()} for one in (own, timms))
        assert others == shapes, options
        timms.load_state_dict(own.state_dict())
        images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(timms.eval()(images), own.eval()(images))
        drops, rates = (
            [part.drop_prob for part in one.modules() if hasattr(part, "drop_prob")] for one in (timms, own)
        )
        assert drops == rates, options


def test_a_page_has_the_lines_of_its_best_trial(search, ablation, reported_search):
    pasted = html.escape(snippet(search), quote=True).replace("&quot;", "&#34;").replace("&#x27;", "&#39;")
    assert f"<pre>{pasted}</pre>" in reported_search.page.read_text()
    assert snippet(search).splitlines()[3:] == [
        "model = timm.create_model(",
        '    "vit_tiny_patch16_224", img_size=(32, 32), in_chans=3, num_classes=2,',
        "    patch_size=4, embed_dim=64, depth=1, num_heads=4, mlp_ratio=4.0,",
        ")",
        f"service.attach(model, service.Fourier(gamma={search.best.recipe.encoding.gamma}, hidden=32))",
    ]
    assert snippet(ablation).endswith("service.attach(model, service.Fourier(gamma=2.5, hidden=32))")
    assert command(search) == command(ablation) == "", "no weights were kept"
    known = [one for some in EXAMPLES.values() for one in some if not isinstance(one, OwnEncoding)]
    texts = {written(one) for one in known}
    assert len(texts) == len(known) > 40
    for one in known:
        assert eval(written(one), {"service": service}) == one
    parts = "service.PEG(kernel=3), service.Fourier(gamma=2.5, hidden=32), service.Fourier(gamma=9.0, hidden=32)"
    assert {"service.Fourier(gamma=1.5, hidden=7)", f"service.Composed(parts=({parts}))"} <= texts
