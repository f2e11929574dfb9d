"""What must be true of every listed encoding, and of a user's own."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from trainables.encodings import IRPE, KINDS, PEG, Composed, NoEncoding, RelativeBias, canonical, irpe_torch, parts_of
from trainables.encodings.irpe import Cross
from trainables.training.parameters import no_decay


def test_every_kind_has_an_example(examples):
    assert {kind for kind in examples if ".py:" not in kind} == {*KINDS}
    assert all(
        kind in {part.kind for part in parts_of(spec)} or spec.kind == kind
        for kind, specs in examples.items()
        for spec in specs
    )


def test_every_parameter_learns(encoding, make, images):
    model = make(encoding)
    before = {name: value.clone() for name, value in model.encoding.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    cross_entropy(model(images), torch.tensor([0, 2, 1, 2])).backward()
    learning = {name: value for name, value in model.encoding.named_parameters() if value.requires_grad}
    for name, value in learning.items():
        assert value.grad is not None, name
        assert torch.equal(value.grad != 0, reached(model.encoding, name)), name
    optimizer.step()
    for name, value in model.encoding.named_parameters():
        assert torch.equal(value, before[name]) == (name not in learning), name


def reached(encoding, name):
    """Which entries of a parameter some pair of patches names: tables keep rows for offsets that a small grid lacks."""
    part, leaf = encoding.part(name.split(".")[0]), name.rpartition(".")[2]
    entries = torch.ones_like(encoding.get_parameter(name), dtype=torch.bool)
    if isinstance(part, irpe_torch.IRPE):
        rows = entries.movedim(-2 if leaf == "v" else -1, -1)
        for mapped, index in enumerate(part.get_buffer("ids")):
            rows[:, mapped, ..., unnamed(index, rows.shape[-1])] = False
    elif leaf == "vectors":
        entries[:, unnamed(part.keys.get_buffer("index"), entries.shape[1])] = False
    return entries


def unnamed(index, count):
    return [number for number in range(count) if number not in index]


def shuffled(images, seed=3):
    """The images with their patches in another order, each as it was."""
    order = torch.randperm(15, generator=torch.Generator().manual_seed(seed))
    patches = images.unflatten(3, (5, 4)).unflatten(2, (3, 4)).permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
    return patches[:, order].unflatten(1, (3, 5)).permute(0, 3, 1, 4, 2, 5).flatten(4, 5).flatten(2, 3)


def test_shuffled_patches_are_told_apart_only_with_position(encoding, make, images):
    model = make(encoding, spread=True).eval()
    with torch.no_grad():
        apart = (model(images) - model(shuffled(images))).abs().amax()
    assert apart < 1e-12 if encoding.is_noop else apart > 1e-4


def test_the_class_token_depends_on_position(encoding, make, images):
    model = make(encoding, "token", spread=True)
    with torch.no_grad():
        apart = (model(images) - model(shuffled(images))).abs().amax()
    assert apart < 1e-12 if encoding.is_noop else apart > 1e-6


def test_gradients_are_finite(encoding, make, images):
    for half in (False, True):
        model = make(encoding, "token", spread=True).float()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = cross_entropy(model(images.float()).float(), torch.tensor([0, 2, 1, 2]))
        loss.backward()
        assert loss.isfinite(), half
        for name, value in model.named_parameters():
            assert value.grad is None or value.grad.isfinite().all(), (half, name)


@pytest.mark.parametrize("spec", [
    IRPE(on=("q", "k", "v")), IRPE(mode="bias", on=("q", "k")), IRPE(mapping=Cross(), shared_heads=False),
    RelativeBias(),
], ids=["irpe", "irpe bias", "irpe cross", "relative_bias"])  # fmt: skip
def test_tables_at_zero_change_nothing(spec, make, images):
    model, plain = make(spec, "token"), make(NoEncoding(), "token")
    for block in [*model.blocks, *plain.blocks]:
        block.attn.fused_attn = False
    assert torch.equal(*(one.output(one.features(images)) for one in (model, plain)))


def test_nothing_stays_behind_when_the_model_moves(encoding, make, images):
    """On a device that holds no numbers: every tensor that a forward pass needs is a parameter or a buffer."""
    model = make(encoding, "token").to("meta")
    assert model(images.to("meta")).device.type == "meta"


def test_state_travels(encoding, make, images):
    one, other = make(encoding, seed=1, spread=True), make(encoding, seed=2)
    assert not torch.equal(one(images), other(images))
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(images), other(images))


def test_two_models_of_one_spec_share_nothing(encoding, make, images):
    one, other = make(encoding), make(encoding)
    expected = other(images)
    for value in [*one.parameters(), *one.buffers()]:
        value.data.zero_()
    assert torch.equal(other(images), expected)
    tensors = [[value.data_ptr() for value in [*model.parameters(), *model.buffers()]] for model in (one, other)]
    assert not {*tensors[0]} & {*tensors[1]}


def test_names_begin_with_the_kind_and_parts_that_do_nothing_have_none(encoding, make):
    padded, model = Composed(parts=(NoEncoding(), encoding, PEG(places=()))), make(encoding)
    assert canonical(padded) == canonical(encoding)
    assert [*make(padded).state_dict()] == [*model.state_dict()]
    kinds = [part.label for part in encoding.parts] if isinstance(encoding, Composed) else [encoding.label]
    for name, _ in model.encoding.named_parameters(prefix="encoding"):
        assert name.split(".")[1] in {kind + suffix for kind in kinds for suffix in ("", "_2")}, name


def test_only_maps_decay(encoding, make):
    model = make(encoding, "token")
    decaying = {name for name, _ in model.named_parameters()} - no_decay(model)
    maps = {"qkv.weight", "proj.weight", "fc1.weight", "fc2.weight", "head.weight", "mlp.0.weight", "mlp.2.weight"}
    assert all(any(name.endswith(end) for end in maps) for name in decaying)


def test_fresh_values_do_not_depend_on_the_global_generator(encoding, make):
    torch.manual_seed(1)
    one = make(encoding)
    torch.manual_seed(2)
    other = make(encoding)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_a_spec_declares_what_its_module_modifies_and_reads(encoding, make):
    """So that an order that cannot work is refused before anything is built."""
    if encoding.kind.startswith("toys.py:"):
        pytest.skip("an own spec need not declare it; its module does")
    module = make(encoding).encoding
    parts = encoding.parts if isinstance(encoding, Composed) else (encoding,)
    assert module.modifies_qk == any(part.modifies_qk for part in parts)
    assert module.reads_qk == any(part.reads_qk for part in parts)
