"""One of the two workers of a run, started by test_two_workers.py: RUN.json FOLDER STORE RANK OUT.json."""

import json
import sys
from functools import partial
from pathlib import Path

import torch
from torch.nn.parallel import DistributedDataParallel

from trainables.recipe import Run
from trainables.training.distributed import DataParallel
from trainables.training.loop import train


def main(run_file: str, folder: str, store: str, rank: str, out: str) -> None:
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
