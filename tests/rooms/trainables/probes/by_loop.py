"""The probes' formulas again, as loops in float64 over single pairs, written without looking at the probes."""

from __future__ import annotations

import math

import numpy as np

from trainables.encodings.encoding import Grid


def place(grid: Grid, patch: int) -> tuple[int, int]:
    """Column and row."""
    return patch % grid.columns, patch // grid.columns


def attention_distance(weights: np.ndarray, grid: Grid) -> np.ndarray:
    """Shapes: (B, H, N, N) to (B, H)."""
    found = np.zeros(weights.shape[:2])
    for image in range(weights.shape[0]):
        for head in range(weights.shape[1]):
            mean = 0.0
            for i in range(grid.patches):
                row = weights[image, head, grid.prefix + i, grid.prefix :]
                total = 0.0
                for j in range(grid.patches):
                    (x, y), (u, v) = place(grid, i), place(grid, j)
                    total += row[j] / sum(row) * math.sqrt((x - u) ** 2 + (y - v) ** 2)
                mean += total / grid.patches
            found[image, head] = mean
    return found


def similarity(codes: np.ndarray, grid: Grid) -> np.ndarray:
    found = np.zeros((grid.patches, grid.rows, grid.columns))
    for t in range(grid.patches):
        for other in range(grid.patches):
            x, y = place(grid, other)
            dot = sum(float(a) * float(b) for a, b in zip(codes[t], codes[other], strict=True))
            lengths = [math.sqrt(sum(float(a) ** 2 for a in codes[n])) for n in (t, other)]
            found[t, y, x] = dot / (lengths[0] * lengths[1])
    return found


def standardized(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean, std = train.mean(axis=0), train.std(axis=0)
    return (train - mean) / std, (test - mean) / std


def logistic(x: np.ndarray, y: np.ndarray, penalty: float = 1.0) -> np.ndarray:
    """Newton's method on log loss + penalty / 2 |w|^2, the intercept last and free."""
    x = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    ridge = penalty * np.diag([1.0] * (x.shape[1] - 1) + [0.0])
    w = np.zeros(x.shape[1])
    for _ in range(60):
        p = 1 / (1 + np.exp(-x @ w))
        w = w - np.linalg.solve((x.T * (p * (1 - p))) @ x + ridge + 1e-12 * np.eye(len(w)), x.T @ (p - y) + ridge @ w)
    return w


def r2(x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray) -> float:
    """The mean of both coordinates' R^2 by the normal equations."""
    x, x_test = (np.concatenate([one, np.ones((len(one), 1))], axis=1) for one in (x, x_test))
    scores = []
    for column in range(y.shape[1]):
        w = np.linalg.solve(x.T @ x, x.T @ y[:, column])
        wrong = sum((float(a) - float(b)) ** 2 for a, b in zip(x_test @ w, y_test[:, column], strict=True))
        middle = sum(map(float, y_test[:, column])) / len(y_test)
        spread = sum((float(b) - middle) ** 2 for b in y_test[:, column])
        if spread > 0:
            scores.append(1 - wrong / spread)
    return sum(scores) / len(scores)
