"""The modules of encodings that declare their parameters: one for all codes, one for all that act inside attention."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import gelu, linear, pad

from trainables.encodings.declared import HeadsSpec, Params
from trainables.encodings.encoding import Grid, Widths
from trainables.encodings.encoding_torch import Code, CodeND, Heads, PositionEncoding, coordinates, full_precision
from trainables.encodings.injection import CodeSpec
from trainables.encodings.resample_torch import resampled_side, resampled_table
from trainables.rng_torch import torch_stream
from trainables.spec import LocusError, SpecError

CoordinatesP2 = Float[Tensor, "P 2"]


def last_coordinates(grid: Grid) -> Tensor:
    """Returns the coordinates (x, y) of the last patch. Shapes: (2)."""
    return torch.tensor([grid.columns - 1, grid.rows - 1])


class Positions:
    """The positions of the tokens, as tensors in float32 (float64 where the model is): what a declared method sees.

    `xy`: (column, row) of each patch, from 0. `dim`: channels that a code must have. `drawn`: random numbers from 0 to
    1 of this step, as many as the spec's `draws`; None in evaluation. `depth`: how many blocks the model has, for
    encodings inside attention. Shapes: xy (P, 2), drawn (draws).
    """

    drawn: Tensor | None = None

    def __init__(self, grid: Grid, widths: Widths, xy: CoordinatesP2, last: Tensor, depth: int = 1) -> None:
        self.grid, self.widths, self.dim, self.xy, self._last, self.depth = grid, widths, widths.dim, xy, last, depth

    @classmethod
    def of(cls, grid: Grid, widths: Widths, depth: int = 1) -> Positions:
        """Returns the positions of a grid, on the CPU in float64."""
        return cls(grid, widths, coordinates(grid).double(), last_coordinates(grid).double(), depth)

    @property
    def x(self) -> Tensor:
        """The column of each patch. Shapes: (P)."""
        return self.xy[:, 0]

    @property
    def y(self) -> Tensor:
        """The row of each patch. Shapes: (P)."""
        return self.xy[:, 1]

    @property
    def unit(self) -> CoordinatesP2:
        """`xy` scaled to [0, 1] along each side, 0 on a side of one patch. Shapes: (P, 2)."""
        return self.xy / self._last.clamp(min=1)

    @property
    def centered(self) -> CoordinatesP2:
        """`xy` scaled to [-1, 1] along each side, 0 on a side of one patch. Shapes: (P, 2)."""
        return (2 * self.xy - self._last) / self._last.clamp(min=1)

    @property
    def offsets(self) -> Tensor:
        """Each offset (rows, columns) that two patches can have, row by row. Shapes: ((2R - 1)(2C - 1), 2)."""
        sides = (self.grid.rows, self.grid.columns)
        lines = [torch.arange(1 - side, side, device=self.xy.device) for side in sides]
        return torch.stack(torch.meshgrid(*lines, indexing="ij"), dim=-1).flatten(0, 1).to(self.xy.dtype)

    def of_offsets(self, values: Tensor) -> Tensor:
        """Returns the value of each pair's offset, query minus key. Shapes: (..., (2R - 1)(2C - 1)) to (..., P, P)."""
        rows, columns = (line[:, None] - line[None, :] for line in (self.y, self.x))
        index = (rows + self.grid.rows - 1) * (2 * self.grid.columns - 1) + columns + self.grid.columns - 1
        taken = values.index_select(-1, index.flatten().long())
        return taken.reshape(*values.shape[:-1], self.grid.patches, self.grid.patches)

    def tensor(self, numbers: list[Any]) -> Tensor:
        """Returns numbers as a tensor of the same type and device as `xy`.

        A GPU's host waits for it. So it is for what is computed once, and not for terms of parameters that learn.
        """
        return self.xy.new_tensor(numbers)

    def cat(self, *tensors: Tensor) -> Tensor:
        """Returns tensors joined along the last dimension."""
        return torch.cat(tensors, dim=-1)

    def stack(self, *tensors: Tensor) -> Tensor:
        """Returns tensors side by side in a new last dimension. Shapes: (...) each to (..., n)."""
        return torch.stack([tensor.to(self.xy.dtype) for tensor in tensors], dim=-1)

    def prefixed(self, patches: Tensor, prefix: Tensor | None = None) -> Tensor:
        """Returns the prefix tokens' rows (by default zeros), then the patches'. Shapes: (..., P, n) to (..., N, n)."""
        if prefix is not None:
            return torch.cat([prefix, patches], dim=-2)
        return pad(patches, (0, 0, self.grid.prefix, 0))

    def between_patches(self, terms: Tensor) -> Tensor:
        """Pads terms with zeros for pairs with a prefix token. Shapes: (..., H, P, P) to (1, ..., H, N, N)."""
        return pad(terms, (self.grid.prefix, 0, self.grid.prefix, 0))[None]


class Parameters:
    """The declared parameters by name: `p("table")`."""

    def __init__(self, module: nn.Module, dtype: torch.dtype) -> None:
        self._module, self._dtype = module, dtype

    def __call__(self, name: str) -> Tensor:
        """Returns a parameter, in float32 or float64."""
        value: Tensor = attrgetter(name)(self._module)  # on another grid a table is no parameter (`attach`)
        return value.to(self._dtype)

    def linear(self, name: str, x: Tensor) -> Tensor:
        """Returns a linear layer with the parameters `<name>.weight` and `<name>.bias`."""
        return linear(x, self(f"{name}.weight"), self(f"{name}.bias"))

    def mlp(self, name: str, x: Tensor) -> Tensor:
        """Returns a linear layer `<name>.0`, GELU, a linear layer `<name>.2`."""
        return self.linear(f"{name}.2", gelu(self.linear(f"{name}.0", x)))


class Declared(PositionEncoding):
    """Parameters as they are declared: registered, initialized and resampled by name.

    `drawn`: random numbers for the next forward pass in training (`assign_numbers`), where the spec has `draws`.
    Raises: SpecError for a parameter whose name torch or this module uses.
    """

    depth = 1

    def __init__(self, spec: CodeSpec | HeadsSpec, params: Params, widths: Widths, grid: Grid) -> None:
        super().__init__()
        self.spec, self.params, self.widths, self.grid = spec, params, widths, grid
        self.drawn: Tensor | None = None
        self.decay = tuple(name for name, param in params.items() if param.decay)
        dtype = torch.get_default_dtype()
        self.register_buffer("xy", coordinates(grid).to(dtype), persistent=False)
        self.register_buffer("last", last_coordinates(grid).to(dtype), persistent=False)
        for name, param in params.items():
            *path, leaf = name.split(".")
            owner: nn.Module = self
            for step in path:  # `mlp.0.weight` is in a module `mlp`
                if step not in owner._modules:
                    _check_free(owner, step, name)
                    owner.add_module(step, nn.Module())
                owner = owner.get_submodule(step)
            _check_free(owner, leaf, name)
            owner.register_parameter(leaf, nn.Parameter(torch.empty(param.shape)))

    @property
    def dtype(self) -> torch.dtype:
        """The type that the declared methods compute in: float64 where the model has it, else float32."""
        return torch.float64 if self.get_buffer("xy").dtype == torch.float64 else torch.float32

    @property
    def is_fixed(self) -> bool:
        """Whether what it computes depends on no parameter, and on no random number now."""
        return not self.params and not (self.training and self.spec.draws)

    def tensors(self) -> tuple[Parameters, Positions]:
        """Returns the parameters and positions, as the declared methods receive them.

        Raises: LocusError without random numbers for this forward pass, where it needs some.
        """
        xy, last = (self.get_buffer(name).to(self.dtype) for name in ("xy", "last"))
        at = Positions(self.grid, self.widths, xy, last, self.depth)
        if self.training and self.spec.draws:
            if self.drawn is None:
                must = "given random numbers before each forward pass in training (assign_numbers)"
                raise LocusError(f"encoding {self.spec.label} must be {must}, got none; model.eval() needs none")
            at.drawn, self.drawn = self.drawn.to(self.dtype), None  # a second pass must not use them again
        return Parameters(self, self.dtype), at

    def register_fixed(self, *tensors: Tensor) -> None:
        """Registers tensors that depend on no parameter, in float64 until the model is cast to another type."""
        for number, tensor in enumerate(tensors):
            self.register_buffer(f"fixed_{number}", tensor.double(), persistent=False)

    def fixed(self) -> tuple[Tensor, ...]:
        """Returns the registered tensors, in the type that the declared methods compute in."""
        buffers = self.named_buffers(recurse=False)
        return tuple(value.to(self.dtype) for name, value in buffers if name.startswith("fixed_"))

    def init_parameter(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        self.params[name].init(value, stream)

    def resampled(self, name: str, value: Tensor, old: Grid, new: Grid) -> Tensor:
        axis = self.params[name].resample if name in self.params else None
        if axis is None:
            return value
        if axis != "grid":
            return resampled_side(value, new.rows if axis == "rows" else new.columns)
        if len(value) == old.patches:  # no rows for prefix tokens
            old, new = Grid(old.rows, old.columns), Grid(new.rows, new.columns)
        return resampled_table(value, old, new)


def _check_free(owner: nn.Module, step: str, name: str) -> None:
    if hasattr(owner, step):
        raise SpecError(f"the name of a declared parameter must be one that no module of torch uses, got '{name}'")


class DeclaredCode(Declared, Code):
    """The module of a `CodeSpec` that declares its parameters. A code without parameters is computed only once."""

    spec: CodeSpec

    def __init__(self, spec: CodeSpec, widths: Widths, grid: Grid) -> None:
        super().__init__(spec, spec.params(widths.dim, grid), widths, grid)
        if not self.params:
            self.register_fixed(self._checked(spec.code(Parameters(self, torch.float64), Positions.of(grid, widths))))

    def code(self) -> CodeND:
        return self.fixed()[0] if self.is_fixed else self._checked(self.spec.code(*self.tensors()))

    def _checked(self, code: CodeND) -> CodeND:
        """Returns the code. Raises: SpecError for another shape, which torch might broadcast without an error."""
        needed, shape = (self.grid.tokens, self.widths.dim), tuple(getattr(code, "shape", ()))
        if shape != needed:
            kind, got = self.spec.kind, f"shape {shape}" if shape else f"{type(code).__name__}"
            raise SpecError(f"the code of {kind} must have the shape {needed}: tokens, channels; got {got}")
        return code


class DeclaredHeads(Declared):
    """The module of a `HeadsSpec`. Its terms are computed once in a forward pass, or only once without parameters."""

    spec: HeadsSpec

    def __init__(self, spec: HeadsSpec, widths: Widths, grid: Grid, depth: int) -> None:
        super().__init__(spec, spec.params(widths, grid, depth), widths, grid)
        self.depth = depth
        self.modifies_qk, self.reads_qk = spec.modifies_qk, spec.reads_qk
        self.in_heads = "first" if spec.accepts_fewer_queries else "all"  # the queries that `heads` needs
        if not self.params:  # nothing learns, so the terms never change
            positions = Positions.of(grid, widths, depth)
            self.register_fixed(*spec.terms(Parameters(self, torch.float64), positions))

    def heads(self, h: Heads, block: int) -> Heads:
        if id(self) not in h.cache:
            with full_precision(h.q):
                h.cache[id(self)] = self.fixed() if self.is_fixed else self.spec.terms(*self.tensors())
        changed: Heads = self.spec.heads(h, h.cache[id(self)], block)
        return changed


def that_draw(model: nn.Module) -> list[tuple[str, Declared]]:
    """Returns the encodings of a model that need random numbers in training, by name."""
    modules = ((name, module) for name, module in model.named_modules() if isinstance(module, Declared))
    return [(name, module) for name, module in modules if module.spec.draws]


def draw_numbers(encodings: list[tuple[str, Declared]], seed: int, step: int) -> Tensor:
    """Returns the random numbers of all encodings for a step, a stream for each. Shapes: (draws of all) float64."""
    streams = ((module.spec.draws, torch_stream(seed, "encoding", name, step)) for name, module in encodings)
    return torch.cat([torch.rand(count, dtype=torch.float64, generator=stream) for count, stream in streams])


def assign_numbers(encodings: list[tuple[str, Declared]], numbers: Tensor) -> None:
    """Gives the numbers of a step to the encodings, for the next forward pass. Shapes: (draws of all)."""
    parts = torch.split(numbers, [module.spec.draws for _, module in encodings])
    for (_, module), part in zip(encodings, parts, strict=True):
        module.drawn = part
