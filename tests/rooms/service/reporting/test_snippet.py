"""The encoding that a page writes in Python is the very encoding of the study."""

import html

import service
from service.reporting.page import command, snippet, written
from tests.laws.conftest import EXAMPLES
from trainables.encodings import OwnEncoding


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
