"""Another processor, played: matrix products, convolutions and attention that round otherwise for other shapes.

A matrix library chooses its kernel by the processor and by the shapes and strides of the operands. So two routes that
compute the same sum may differ in the last digits on one processor and agree on another one. `Processor` multiplies
each such result by 1 + h times the rounding unit of its type (1.2e-7 in float32), where h is a hash of these shapes and
strides. What is equal by construction stays equal; what is equal by luck does not.

`pytest --processor N` runs all tests on processor N. Threads that a test starts are on it, too; processes are not.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "convolution", "linear"}
PRODUCTS |= {"convolution_backward", "linear_backward", "mkldnn_linear", "mkldnn_convolution", "_addmm_activation"}
ATTENTION = ("_scaled_dot_product_",)
"""What the names of fused attention, forward and backward, begin with."""
FACTORS = (-2, -1, 1, 2)


class Processor(TorchDispatchMode):
    """One processor, by its number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Calls an operation, and rounds what it returns as this processor would.

        In inference mode an operation that consists of others (`linear`, `einsum`) arrives whole; those count.
        """
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
            with self, _autocast_as_outside():
                return func.decompose(*args, **(kwargs or {}))
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.partition("::")[2].rstrip("_")
        if name in PRODUCTS or name.startswith(ATTENTION):
            operands = [_layout(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            digest = hashlib.blake2b(f"{self._number} {name} {operands}".encode()).digest()
            attention_forward = name.startswith(ATTENTION) and not name.endswith("_backward")
            for tensor in (result[0],) if attention_forward else tree_leaves(result):
                if isinstance(tensor, torch.Tensor) and tensor.dtype in (torch.float32, torch.float64):
                    tensor.mul_(1 + FACTORS[digest[0] % len(FACTORS)] * torch.finfo(tensor.dtype).eps)
        return result


def _autocast_as_outside() -> Any:
    """Lets autocast see the parts of an operation if it is on: torch shuts it off while a mode is called."""
    with torch._C._RestorePythonTLSSnapshot():  # as it was when the operation was called
        on = torch.is_autocast_enabled("cpu")
    excluded = torch._C._dispatch_tls_local_exclude_set()
    if on:
        excluded = excluded.remove(torch._C.DispatchKey.AutocastCPU)
    return torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded)


def _layout(tensor: torch.Tensor) -> list[tuple[int, int]]:
    """The size and stride of each dimension that has more than one element."""
    return [(size, stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


@contextmanager
def on_processor(number: int) -> Iterator[None]:
    """Computes on a processor, in this thread and in those that it starts."""
    run = threading.Thread.run

    def run_on_it(thread: threading.Thread) -> None:
        with Processor(number):
            run(thread)

    with patch.object(threading.Thread, "run", run_on_it), Processor(number):
        yield
