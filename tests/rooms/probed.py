"""A study of real models with weights, its history written by hand: what probes look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from search_spaces.study import Ablation, Study, Trial
from service.storage.facts import Planned
from service.storage.home import Home
from tests.rooms.by_hand import ByHand, keep_weights
from trainables.encodings import Learnable
from trainables.recipe import FromTrial, Recipe, Run
from trainables.training.checkpoint import write
from trainables.training.loop import build_model_with_weights

SMALL = {
    "data.image_size": 16,
    "data.train_size": 12,
    "data.val_size": 6,
    "data.test_size": 6,
    "model.embed_dim": 16,
    "model.num_heads": 2,
    "optimizer.epochs": 8,
    "optimizer.batch_size": 4,
}
FROM = FromTrial(values={"data.task": "absolute"}, part="encoding").plain()
ARMS = {
    "learnable": {"encoding.kind": "learnable"},
    "sinusoidal": {"encoding.kind": "sinusoidal"},
    "irpe": {"encoding.kind": "irpe"},
    "pretrained": {"encoding.kind": "learnable", "init": FROM},
}


def study(*names: str, depth: int = 1, arms: dict[str, dict[str, Any]] = ARMS, **more) -> Study:
    base = Recipe(encoding=Learnable()).put({**SMALL, "model.depth": depth})
    baseline = [*arms][2]
    return Study(name="known", question="?", base=base, plan=Ablation(arms, baseline), seeds=2, probes=names, **more)


def weights_of(run: Run, parent: Path | None = None) -> dict[str, torch.Tensor]:
    """What a run has learned here: twice its initial weights, and something more."""
    state = build_model_with_weights(run.recipe, run.seed, parent).state_dict()
    stream = torch.Generator().manual_seed(1)
    return {
        name: 2 * value + 0.1 * torch.randn(value.shape, generator=stream) if value.is_floating_point() else value
        for name, value in state.items()
    }


def probed(root: Path, *names: str, depth: int = 1, arms: dict[str, dict[str, Any]] = ARMS) -> Home:
    """Four arms with two seeds and their weights; one arm starts from a parent. `arms`: others, without a parent."""
    with ByHand(root, study(*names, depth=depth, arms=arms).at(), seeds=2) as hand:
        trials = [hand.plan("trial", number, values, name) for number, (name, values) in enumerate(arms.items())]
        if first := Run(recipe=trials[-1].recipe, seed=0).parents.get("init"):
            hand.journal.write(Planned(role="parent", number=1, name="p", values={"key": first.key}))
            trials.insert(0, Trial(number=1, name="p", values={}, recipe=first.recipe, role="parent"))
        for trial in trials:
            for seed in range(2):
                hand.complete(trial, seed, 0.7, 0.7)
                run = Run(recipe=trial.recipe, seed=seed)
                above = run.parents.get("init")
                start = above and hand.outcomes.weights(above.key, hand.codes(above.recipe).digest)
                weights, code = weights_of(run, start), hand.codes(trial.recipe).digest
                keep_weights(hand.outcomes, run.key, code, lambda path, weights=weights: write(path, weights))
    return Home(root)
