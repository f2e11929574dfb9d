"""Optuna's GPSampler in place of TPE, on the surrogates of `search.py`: images to the goal over those of random search.

    python -m tests.calibration.samplers 8       8 runs at a time; 1 is the default, and slow: 15 s for a search
    python -m tests.calibration.samplers 1 20    20 searches of each

It is no table of `calibrate.py`, for it has no bar: it says why `service.planning.sampling` has TPE. OptunaHub's
AutoSampler is one of both on these spaces: by its source it takes GPSampler where all coordinates are numbers, and TPE
where one is a choice or conditional.
"""

from __future__ import annotations

import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from statistics import fmean, median, stdev
from time import monotonic

import optuna
import torch

from search_spaces.plans.search import STARTUP_TRIALS
from service.planning import sampling
from tests.calibration.search import PROCESSES, REPETITIONS, SURROGATES, Searched, _repeat

TPE = sampling._tpe


def gaussian_process(seed: int) -> optuna.samplers.GPSampler:
    """A Gaussian process of the coordinates that every point has; the others are TPE's."""
    return optuna.samplers.GPSampler(
        seed=seed, n_startup_trials=STARTUP_TRIALS, warn_independent_sampling=False, independent_sampler=TPE(seed)
    )


def repeat(task: tuple[str, str, int, int]) -> Searched:
    """One search of a surrogate by a sampler: "tpe", "gp" or "random"."""
    sampler, name, repetition, slots = task
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sampling._tpe = gaussian_process if sampler == "gp" else TPE
    return _repeat((name, repetition, slots, sampler == "random"))


def main(slots: int = 1, repetitions: int = REPETITIONS) -> None:
    """Prints a line a surrogate and sampler; of the regret with its standard error."""
    with ProcessPoolExecutor(PROCESSES) as pool:
        for name in SURROGATES:
            begin = monotonic()
            done = {
                sampler: list(pool.map(repeat, [(sampler, name, number, slots) for number in range(repetitions)]))
                for sampler in ("tpe", "gp", "random")
            }
            images = {sampler: median(one.reached for one in some) for sampler, some in done.items()}
            for sampler in ("tpe", "gp"):
                some = done[sampler]
                ratio, regrets = images[sampler] / images["random"], [one.regret for one in some]
                print(
                    f"{name}, {slots} at a time, {sampler}: {ratio:.2f} of random's images; "
                    f"best point stopped in {fmean(one.lost for one in some):.0%}; "
                    f"regret {fmean(regrets):.4f} +- {stdev(regrets) / len(regrets) ** 0.5:.4f}",
                    flush=True,
                )
            print(f"({monotonic() - begin:.0f} s)", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
