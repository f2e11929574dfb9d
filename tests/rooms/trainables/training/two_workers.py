"""One of the two workers of a run, started by test_two_workers.py: RUN.json FOLDER STORE RANK OUT.json [STEPS].

With a number of steps it saves after each, and ends as if it were killed after so many.
"""

import json
import sys
import time
from functools import partial
from pathlib import Path

import torch
from torch.nn.parallel import DistributedDataParallel

from trainables.recipe import Run
from trainables.training import distributed
from trainables.training.distributed import DataParallel
from trainables.training.loop import Training, train
from trainables.training.saving import Saver


def end_after(steps: int, folder: Path, rank: str) -> None:
    """Saves after each step, and ends both processes in the step after so many.

    They end together, because one that ends earlier may cut off the last words of the other one.
    """
    step, done = Training._step, []

    def counted(*given):
        if len(done) == steps:
            (folder / f"{rank}.ends").touch()
            until = time.monotonic() + 60
            while len(list(folder.glob("*.ends"))) < 2 and time.monotonic() < until:
                time.sleep(0.01)
            sys.exit(0)
        done.append(step(*given))
        return done[-1]

    Training._step, Saver.due, distributed.AGREE_STEPS = counted, property(lambda self: self.path.parent.exists()), 1


def main(run_file: str, folder: str, store: str, rank: str, out: str, steps: str = "") -> None:
    if steps:
        end_after(int(steps), Path(out).parent, rank)
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=int(rank), world_size=2)
    wrap = partial(DistributedDataParallel, broadcast_buffers=False)
    team = DataParallel(rank=int(rank), world_size=2, wrap=wrap)
    run = Run.read(json.loads(Path(run_file).read_text()))
    measured = [item.plain() for item in train(run, Path(folder), team=team)]
    Path(out).write_text(json.dumps(measured))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
