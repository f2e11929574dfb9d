"""Terms of pairs from small tables: products are looked up by number, never built for each pair as vectors."""

from __future__ import annotations

from torch import Tensor


def picked(table: Tensor, index: Tensor) -> Tensor:
    """The numbers of a table that pairs name. Shapes: table (H, n) and index (I, J) to (H, I, J)."""
    return table.index_select(1, index.flatten()).reshape(-1, *index.shape)


def looked_up(products: Tensor, index: Tensor) -> Tensor:
    """Of each token's products with a table's rows, those that its pairs name.

    Shapes: products (B, H, I, n) and index (I, J) to (B, H, I, J).
    Cost: B H I J numbers; the gradient adds up those of one number.
    """
    return products.gather(3, index.expand(*products.shape[:2], *index.shape))


def summed_by_number(weights: Tensor, index: Tensor, numbers: int) -> Tensor:
    """The sums of each token's weights over the pairs of one number. Shapes: (B, H, I, J), (I, J) to (B, H, I, n)."""
    sums = weights.new_zeros(*weights.shape[:3], numbers)
    return sums.scatter_add(3, index.expand(*weights.shape), weights)
