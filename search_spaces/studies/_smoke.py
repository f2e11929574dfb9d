"""What the smallest budgets share: few red-green images, few seeds, and what they cannot show."""

from typing import Any

from search_spaces.study import Budget

ARMS_GAP = "smoke trains too little, on few seeds: it shows that every arm runs, not what it scores"
PARTS_GAP = "smoke trains too little, on few seeds: it shows that every part runs, not what it scores"

SMALL: dict[str, Any] = {
    "data.train_size": 400,
    "data.val_size": 100,
    "data.test_size": 100,
    "optimizer.epochs": 2,
}


def searched(trials: int) -> Budget:
    """Returns the budget `smoke` of a search. No point is stopped, so each trains all its seeds."""
    return Budget(SMALL, trials=trials, seeds=2, stop=False, gap=PARTS_GAP)
