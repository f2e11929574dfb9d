"""A ViT of timm with a position encoding: timm's own forward pass runs, and the encoding acts in it at three places.

They are where timm adds its table (`_pos_embed`), before each block, and where attention calls
`scaled_dot_product_attention`. What an encoding does not touch stays timm's: norms, dropout, gates, intermediate
layers, hooks, and the methods of a user's own class. `trainables.training.attach` makes such a model.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial, reduce
from typing import Any, Self

import torch
from pydantic_core import PydanticCustomError
from timm.layers import resample_abs_pos_embed
from timm.layers.attention import resolve_self_attn_mask
from torch import Tensor, nn
from torch.nn.functional import dropout, scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

from trainables.backbones import vit_torch
from trainables.backbones.backbone_torch import position, residual, timm_init
from trainables.encodings import EncodingSpec, Shape
from trainables.encodings.declared_torch import Declared, assign_numbers, draw_numbers, that_draw
from trainables.encodings.encoding_torch import Cache, Composition, Grid, Heads, PositionEncoding, Tokens
from trainables.spec import SpecError
from trainables.training.optional.checkpointing import Repeated, require_still
from trainables.training.parameters import keep_statistics, no_decay
from trainables.training.runtime import HALVES
from trainables.training.trained import leave_out_initial_values

Timms: Any = object
"""The class of timm, or a user's own, that stands beside a class of here (`mix`)."""


def mix(module: nn.Module, mixin: type) -> None:
    """Makes a module one of a class more, whose methods come before those of its own class."""
    bases: Any = type(module).__bases__ if isinstance(module, Mixed) else (type(module),)
    module.__class__ = _mixed(mixin, *bases)


@cache
def _mixed(*bases: type) -> type:
    return type(f"Attached{bases[-1].__name__}", bases, {})


class Mixed:
    """What is mixed with classes of timm. Pickle and `deepcopy` mix them again."""

    passes: Passes

    @property
    def now(self) -> Pass:
        """The forward pass that this thread computes."""
        return self.passes.now

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _empty, type(self).__bases__, self.__getstate__()


def _empty(*bases: type) -> Any:
    return object.__new__(_mixed(*bases))


class Instead(TorchFunctionMode):
    """Calls a function wherever `scaled_dot_product_attention` is called."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return (self.function if func is scaled_dot_product_attention else func)(*args, **(kwargs or {}))


class Passes(threading.local):
    """The forward pass of each thread; torch.compile (2.15) would lose what is written to such an object itself."""

    def __init__(self) -> None:
        self.now = Pass()

    def __reduce__(self) -> tuple[Any, ...]:
        return Passes, ()


@dataclass
class Pass:
    """A forward pass. `rest`: of `Tokens`, what goes on to the next block; `next`: the first block that may come.

    `inside`, `block`: tokens and number of the block that computes now, if the encoding acts in its attention; `acted`:
    whether attention has come to it. `other`: the encoding on the last grid that was another than the model's.
    """

    encoding: Any = None
    rest: tuple[Grid, Tensor | None, Cache] | None = None
    next: int = 0
    inside: Tokens | None = None
    block: int = 0
    acted: bool = False
    other: dict[Any, Composition] = field(default_factory=dict)

    def tokens(self, x: Tensor, block: int) -> Tokens:
        """Returns the tokens before a block, with their position.

        Raises: SpecError for a block that comes out of turn, and for other tokens than those before.
        """
        if self.rest is None or block < self.next or x.shape[1] != self.rest[0].tokens:
            must = "call _pos_embed, then its blocks in order with all tokens, as timm's forward_features does"
            raise SpecError(f"model must {must}, got block {block} with {x.shape[1]} tokens")
        t = Tokens(x, *self.rest)
        t = self.encoding.tokens(t, block) if block else t  # those of the first block have it (`_pos_embed`)
        self.rest, self.next = (t.grid, None, t.cache), block + 1
        return replace(t, x=residual(t.x))


class AttachedAttention(Mixed, Timms):  # type: ignore[misc]
    """Attention of timm, or a user's own. `is_fused`: what `fused_attn` was set to; else `attn_drop` sees weights."""

    is_fused: bool

    @property
    def fused_attn(self) -> bool:
        """Whether timm's code calls `scaled_dot_product_attention`: wherever the encoding acts, too."""
        return self.is_fused or self.now.inside is not None

    @fused_attn.setter
    def fused_attn(self, fused: bool) -> None:
        self.is_fused = fused

    def forward(self, x: Tensor, *args: Any, **named: Any) -> Tensor:
        if (t := self.now.inside) is None:
            return super().forward(x, *args, **named)  # type: ignore[no-any-return]
        asking: list[Tensor] = []
        if t.qk_input is not None:
            with Instead(lambda q, k, v, **_: asking.extend((q, k)) or v):  # type: ignore[func-returns-value]
                super().forward(t.qk_input, *args, **named)
        with Instead(partial(self._attend, t, asking)):
            return super().forward(x, *args, **named)  # type: ignore[no-any-return]

    def _attend(
        self,
        t: Tokens,
        asking: list[Tensor],
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
    ) -> Tensor:
        """Returns outputs of heads with the encoding, from what timm gives to torch. Shapes: (B, H, N, E).

        `asking`: other queries and keys, or none. Raises: SpecError for shapes that the encoding was not made for.
        """
        now, encoding, width = self.now, self.now.encoding, self.head_dim
        for each in (query, key, value):
            if each.shape[1:] != (self.num_heads, t.grid.tokens, width):
                must = f"have {self.num_heads} heads, {t.grid.tokens} tokens, {width} channels in q, k and v"
                raise SpecError(f"attention must {must}, got {tuple(each.shape[1:])}")
        q, k = asking or (query, key)
        h, now.acted = encoding.heads(Heads(q, k, value, None, t.grid, t.cache), now.block), True
        mask = resolve_self_attn_mask(t.grid.tokens, q, attn_mask, is_causal)
        bias = mask if h.bias is None else h.bias if mask is None else h.bias + mask
        if self.is_fused and not encoding.reads_weights:
            if scale is None and h.q.shape[3] != width:
                scale = width**-0.5  # else torch's own default, as timm has it: they differ in the last bit
            o = scaled_dot_product_attention(h.q, h.k, h.v, attn_mask=bias, dropout_p=dropout_p, scale=scale)
        else:
            logits = (h.q * (width**-0.5 if scale is None else scale)) @ h.k.mT
            weights = torch.softmax(logits if bias is None else logits + bias, dim=3)
            weights = (getattr(self, "attn_drop", None) or partial(dropout, p=dropout_p))(weights)
            o = encoding.outputs(weights @ h.v, weights, t.grid, now.block)
        terms = encoding.value_terms(h, now.block)
        return o if terms is None else o + terms


class NarrowAttention(vit_torch.Attention):
    """timm's attention with fewer channels in its heads, which the encoding fills."""

    passes: Passes
    now = Mixed.now

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:  # type: ignore[override]
        masks = ["attn_mask"] * (attn_mask is not None) + ["is_causal"] * is_causal
        if (more := masks + beside_projections(self)) or self.now.inside is None:
            raise SpecError(f"attention must be plain where an encoding makes it narrower, got {more}")
        self.now.acted = True
        t = replace(self.now.inside, x=x)
        return super().forward(t, self.now.encoding, self.now.block) if x.shape[0] else x

    def _projected(self, t: Tokens, queries: int | None) -> tuple[Tensor, ...]:  # by the whole layer, with LoRA
        q, k, v = self.qkv(t.x).split(self._widths(), dim=2)
        return (q, k, v) if t.qk_input is None else (*self.qkv(t.qk_input).split(self._widths(), dim=2)[:2], v)


def beside_projections(layer: Any) -> list[str]:
    """Names what a layer of timm does that a narrower one leaves out."""
    return [name for name in ("attn_drop", "proj_drop", "gate", "norm") if not _is_idle(getattr(layer, name, None))]


def _is_idle(layer: Any) -> bool:
    return layer is None or isinstance(layer, nn.Identity) or getattr(layer, "p", None) == 0


class AttachedBlock(Mixed, Timms):  # type: ignore[misc]
    """A block of timm, or a user's own. `attends`: whether the encoding acts in its attention, after `norm1` or not."""

    number: int
    attends: bool
    norms_first: bool
    recomputes = False

    def forward(self, x: Tensor, *args: Any, **named: Any) -> Tensor:
        t, encoding = self.now.tokens(x, self.number), self.now.encoding
        if not (self.recomputes and self.training and torch.is_grad_enabled()):
            return self._compute(t, encoding, *args, **named)
        again = Repeated(self._compute, [], [part for _, part in that_draw(encoding)], (t,))
        return checkpoint(again, t, encoding, *args, use_reentrant=False, **named)  # type: ignore[no-any-return]

    def _compute(self, t: Tokens, encoding: Composition, *args: Any, **named: Any) -> Tensor:
        if not self.attends:
            return super().forward(t.x, *args, **named)  # type: ignore[no-any-return]
        if t.qk_input is not None:
            if not self.norms_first:
                must = "have timm's blocks with a norm before attention, where queries and keys alone see position"
                raise SpecError(f"model must {must}, got {type(self).__name__}")
            t = replace(t, qk_input=self.norm1(t.x + t.qk_input))
        now = self.now
        now.encoding, now.inside, now.block, now.acted = encoding, t, self.number, False
        try:
            x: Tensor = super().forward(t.x, *args, **named)
        finally:
            now.inside = None
        if not now.acted:
            must = "have attention that calls scaled_dot_product_attention, where the encoding acts"
            raise SpecError(f"model must {must}, got none in block {self.number}")
        return x


class AttachedViT(Mixed, Timms):  # type: ignore[misc]
    """A ViT of timm with an encoding in place of its own positions. `shape`: that of the model when it was attached."""

    encoding: Composition
    spec: EncodingSpec
    shape: Shape

    def _pos_embed(self, x: Tensor) -> Any:
        """Returns the tokens before the first block, and what timm's method returns beside them, such as rotations."""
        require_plain(self)
        # (B, R, C, D) where a model takes images of all sizes, else (B, P, D)
        rows, columns = x.shape[1:3] if x.ndim == 4 else self.patch_embed.grid_size
        fits = x.shape[1] == rows * columns and getattr(self.patch_embed, "strict_img_size", True)
        if x.ndim == 3 and not fits:
            must = "be made with dynamic_img_size=True, or told by set_input_size, for images of another size"
            raise SpecError(f"model must {must}, got {x.shape[1]} patches and no check of sizes (strict_img_size)")
        grid = Grid(rows, columns, self.shape.prefix)
        encoding = self.encoding if grid == Grid.of(self.shape) else self._elsewhere(grid, x)
        made = super()._pos_embed(x if len(x) else x.new_zeros(1, *x.shape[1:]))  # timm's has a view of no images
        tokens, *rotations = made if isinstance(made, tuple) else (made,)
        t = encoding.tokens(Tokens(residual(tokens if len(x) else tokens[:0]), grid), 0)
        self.now.encoding, self.now.rest, self.now.next = encoding, (t.grid, t.qk_input, t.cache), 0
        return (residual(t.x), *rotations) if rotations else residual(t.x)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _elsewhere(self, grid: Grid, x: Tensor) -> Composition:
        """Returns the encoding on another grid than that of `shape`: with its parameters, and tables resampled."""
        key = grid, x.device, next(self.parameters(), x).dtype  # a replica of DataParallel has no parameters
        if key not in self.now.other:
            with torch.inference_mode(False):  # its tensors are for training, too
                made = built(self.spec, replace(self.shape, rows=grid.rows, columns=grid.columns)).to(*key[1:])
            leave_out_initial_values(made)
            self.now.other = {key: made}
        other = self.now.other[key].train(self.training)
        keep_statistics(other)
        _share(self.encoding, other, Grid.of(self.shape), grid)
        return other

    def forward_intermediates(self, x: Tensor, *args: Any, **named: Any) -> Any:
        """Returns what timm's returns. Raises: SpecError for maps of a grid that the encoding makes smaller."""
        if self.spec.shrinks and "NLC" not in (*args, named.get("output_fmt")):
            raise SpecError("output_fmt must be 'NLC' where an encoding makes the grid smaller, got 'NCHW'")
        return super().forward_intermediates(x, *args, **named)

    def set_input_size(self, *args: Any, **named: Any) -> None:
        """Sets the size of images, or of patches, as timm's does; the encoding follows in the next forward pass."""
        zeroed = "pos_embed" in self._buffers
        super().set_input_size(*args, **named)
        if zeroed:
            zero_table(self)

    def no_weight_decay(self) -> set[str]:
        """Names the parameters that timm's optimizers exempt from weight decay: timm's, and the encoding's."""
        return {*super().no_weight_decay()} | no_decay(self)

    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        """Tells timm's layer-wise decay that the encoding belongs to the lowest layer, as timm's table does."""
        groups: dict[str, Any] = super().group_matcher(coarse)
        return groups | {"stem": rf"{groups['stem']}|^encoding\."}

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Lets training keep the inputs of blocks alone, or all. Raises: SpecError where a batch norm learns."""
        if enable:
            require_still(self.encoding)
        super().set_grad_checkpointing(enable)
        self.grad_checkpointing = False  # a block repeats itself, with the pass that it was in
        for block in self.blocks:
            block.recomputes = enable

    def train(self, mode: bool = True) -> Self:
        """Sets training mode, in which batch norms of a frozen encoding keep their statistics, as in a run."""
        super().train(mode)
        keep_statistics(self.encoding)
        return self

    def init_parameter(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        """Initializes layers that became narrower as timm does (`trainables.training.init.init_weights`)."""
        timm_init(self, name, value, stream)

    def draw(self, seed: int, step: int) -> None:
        """Draws what the encoding needs for the next forward pass in training: a jitter of coordinates, or nothing."""
        if encodings := that_draw(self):
            assign_numbers(encodings, draw_numbers(encodings, seed, step))


def require_plain(model: Any) -> None:
    """Checks what may change after `attach`, too. Raises: SpecError if tokens are dropped, or weights are halves."""
    for name in ("pos_drop", "patch_drop"):
        if not _is_idle(getattr(model, name, None)):
            raise SpecError(f"model must be without {name}_rate, got one that has it")
    if (value := next(model.parameters(), None)) is not None and value.dtype in HALVES.values():
        must = "have weights of float32 (torch.autocast computes with them in halves)"
        raise SpecError(f"model must {must}, got {value.dtype}")


def zero_table(model: Any) -> None:
    """Puts zeros, which are no parameter, in place of a model's table: methods of a user's class may look for one."""
    zeros = torch.zeros_like(model.pos_embed, requires_grad=False)
    del model.pos_embed
    model.register_buffer("pos_embed", zeros, persistent=False)


def built(encoding: EncodingSpec, shape: Shape) -> Composition:
    """Returns the modules of an encoding. Raises: SpecError if it does not fit the shape."""
    try:
        encoding.check(shape)
    except PydanticCustomError as error:
        raise SpecError(str(error)) from None
    return position(encoding, shape)


def _share(parts: Composition, other: Composition, old: Grid, new: Grid) -> None:
    """Gives an encoding on another grid the parameters, statistics and random numbers of this one; tables resampled.

    Tables of patches are resampled as timm does, others by their own rule. Gradients reach the original ones.
    Raises: SpecError for a table without a rule.
    """
    owners = {name: part for name, part in parts.named_modules() if isinstance(part, PositionEncoding)}
    for name, old_value in other.state_dict(keep_vars=True).items():
        owner = max((prefix for prefix in owners if not prefix or name.startswith(f"{prefix}.")), key=len)
        part, leaf = owners[owner], name.removeprefix(f"{owner}.")
        value: Any = reduce(getattr, name.split("."), parts)
        if isinstance(part, Declared) and leaf in part.params and part.params[leaf].resample == "grid":
            prefix, sizes = len(value) - old.patches, ([new.rows, new.columns], [old.rows, old.columns])
            value = resample_abs_pos_embed(value[None], *sizes, num_prefix_tokens=prefix)[0]
        else:
            value = part.resampled(leaf, value, old, new)
        if value.shape != old_value.shape:
            must = f"of shape {tuple(old_value.shape)} on {new.rows} x {new.columns} patches, got {tuple(value.shape)}"
            raise SpecError(f"encoding.{name} must be {must}: write a method resampled")
        path, _, leaf = name.rpartition(".")
        module = other.get_submodule(path)
        (module._buffers if leaf in module._buffers else module._parameters)[leaf] = value
    for (_, part), (_, part_of_other) in zip(that_draw(parts), that_draw(other), strict=True):
        part.drawn, part_of_other.drawn = None, part.drawn
