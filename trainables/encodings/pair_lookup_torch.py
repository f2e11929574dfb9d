"""Terms of pairs from small tables: products are looked up by index, so no N x N x E tensor is built."""

from __future__ import annotations

from torch import Tensor


def picked(table: Tensor, index: Tensor) -> Tensor:
    """Returns the table's value at the index of each pair. Shapes: table (H, n) and index (I, J) to (H, I, J)."""
    return table.index_select(1, index.flatten()).reshape(len(table), *index.shape)


def looked_up(products: Tensor, index: Tensor) -> Tensor:
    """Returns each token's products with a table's rows, at the index of each of its pairs.

    Shapes: products (B, H, I, n) and index (I, J) to (B, H, I, J).
    Cost: B H I J numbers; the gradient sums the pairs of each index.
    """
    return products.gather(3, index.expand(*products.shape[:2], *index.shape))


def summed_by_number(weights: Tensor, index: Tensor, numbers: int) -> Tensor:
    """Sums each token's weights over the pairs of each index. Shapes: (B, H, I, J), (I, J) to (B, H, I, n)."""
    sums = weights.new_zeros(*weights.shape[:3], numbers)
    return sums.scatter_add(3, index.expand(*weights.shape), weights)
