"""The memory of a GPU: what is predicted of a run, and what happens where it is too small."""

import time
from dataclasses import replace

import pytest
import torch

from tests.gpu.speed import VIT_S
from trainables.data import RedGreen
from trainables.data.splits_torch import Reading
from trainables.encodings import IRPE, Learnable, RelativeBias
from trainables.launch.job import Job
from trainables.launch.worker import SHARED, work
from trainables.recipe import AdamW, Recipe, Run
from trainables.recipe.cost import PROCESS_BYTES, estimate_cost
from trainables.recipe.revisions import code_of
from trainables.training.distributed import SINGLE
from trainables.training.loop import Training
from trainables.training.optional.checkpointing import checkpointed
from trainables.training.optional.out_of_memory import free_memory


def of(encoding, precision, batch=128):
    return Run(
        recipe=Recipe(
            data=RedGreen(image_size=224, square=32, train_size=2 * batch, val_size=batch, test_size=16),
            model=VIT_S, encoding=encoding, optimizer=AdamW(epochs=1, batch_size=batch, precision=precision),
        ),
        seed=0,
    )  # fmt: skip


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("encoding", [Learnable(), RelativeBias(), IRPE()], ids=["learnable", "relative_bias", "irpe"])
@pytest.mark.parametrize("recomputed", [False, True], ids=["kept", "recomputed"])
def test_memory_is_predicted(encoding, precision, recomputed):
    """Of ViT-S/16 at 224 pixels, within a factor of 1.6; with gradient checkpointing, too."""
    free_memory()
    run = of(encoding, precision)
    torch.cuda.reset_peak_memory_stats()
    team = replace(SINGLE, wrap=checkpointed) if recomputed else SINGLE
    training = Training(run, "cuda", {}, team, Reading())
    training.evaluate(1, training.learn(1))
    used = torch.cuda.max_memory_allocated()
    predicted = estimate_cost(run.recipe, recomputed).memory_bytes - PROCESS_BYTES
    free, total = torch.cuda.mem_get_info()
    begin = time.perf_counter()
    training.learn(2)
    torch.cuda.synchronize()
    speed = 2 * 128 / (time.perf_counter() - begin)
    way = f"{encoding.kind} {precision}{' recomputed' * recomputed}"
    print(f"\n{way}: {speed:.0f} images/s, {used / 2**30:.2f} GiB used, {predicted / 2**30:.2f} predicted, "
          f"ratio {predicted / used:.2f}; of the process beside tensors "
          f"{(total - free - torch.cuda.memory_reserved()) / 2**30:.2f} GiB")  # fmt: skip
    assert used / 1.6 <= predicted <= used * 1.6


def test_a_batch_that_does_not_fit_is_computed_in_parts(tmp_path):
    """So many runs share the GPU that a batch fits into the part of each in halves alone."""
    free_memory()
    run = of(Learnable(), "float32", batch=64)
    training = Training(run, "cuda", {}, SINGLE, Reading())
    torch.cuda.reset_peak_memory_stats()
    training.learn(1)
    whole = torch.cuda.max_memory_allocated()
    del training
    free_memory()
    part = SHARED * torch.cuda.get_device_properties(0).total_memory / (0.75 * whole)
    notes = []
    job = Job(run=run, code=code_of(run.recipe), label="0", attempt=1, folder=str(tmp_path), device="cuda")
    try:
        work(
            job.model_copy(update={"runs_per_gpu": round(part)}), lambda message: notes.append(message["note"]) or True
        )
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert "2 times as many parts" in notes[-1]
