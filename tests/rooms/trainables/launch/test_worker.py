"""A job trained in one process, in a thread, by a group of two, or in parts: what is said, what is left behind."""

import json
import os
import resource
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest
import timm
import torch

from trainables.backbones import ViT
from trainables.data import RedGreen
from trainables.encodings import PEG, OwnEncoding
from trainables.launch import alone as threaded
from trainables.launch.alone import Alone
from trainables.launch.errors import CodeError, WorkError
from trainables.launch.group import Group
from trainables.launch.job import Job
from trainables.launch.message import BEGAN_AGAIN, message
from trainables.launch.worker import without_launcher, work
from trainables.recipe import AdamW, Recipe, Run
from trainables.recipe.outcome import Diverged, Measurement
from trainables.recipe.revisions import Code, code_of
from trainables.source import load
from trainables.training.checkpoint import read
from trainables.training.optional import compiled as compilation
from trainables.training.optional.out_of_memory import GpuMemoryError, check_parts
from trainables.training.runtime import release_memory, runtime, settings
from trainables.training.saving import Progress

EPOCHS = 3
RUN = Run(
    recipe=Recipe(
        data=RedGreen(image_size=16, train_size=130, val_size=50, test_size=60),
        model=ViT(embed_dim=16, num_heads=2),
        optimizer=AdamW(epochs=EPOCHS, batch_size=40, lr=0.01),
    ),
    seed=1,
)


LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def job(folder: Path, **layout) -> Job:
    folder.mkdir()
    return Job(run=RUN, code=code_of(RUN.recipe), label="0", attempt=1, folder=str(folder), **layout)


def losses(messages: list[dict]) -> list[float]:
    return [json.loads(one["result"])["values"]["train/loss"] for one in messages]


def trained(job: Job) -> list[dict]:
    said: list[dict] = []
    work(job, lambda message: said.append(message) is None)
    return said


def alone(folder: Path) -> list[dict]:
    return trained(job(folder))


def test_a_job_that_was_planned_with_other_code_is_refused_for_good(tmp_path):
    planned = Code({**code_of(RUN.recipe).revisions, "loop": 0})
    with pytest.raises(
        CodeError, match=r"^a worker must have the code of the driver, got loop \d+, not 0: run the study"
    ):
        trained(job(tmp_path / "a").model_copy(update={"code": planned}))
    assert not [*(tmp_path / "a").iterdir()]


def test_every_epoch_is_said_in_plain_values_and_the_last_with_its_environment(tmp_path):
    said = alone(tmp_path / "a")
    assert [one["epoch"] for one in said] == [1, 2, 3]
    assert {type(value) for one in said for value in one.values()} == {int, str}
    assert [bool(json.loads(one["environment"])) for one in said] == [False, False, True]
    environment = json.loads(said[-1]["environment"])
    assert (environment["threads"], environment["workers"], environment["device"]) == (1, 0, "cpu")
    last = Measurement.read(json.loads(said[-1]["result"]))
    assert {"train/loss", "val/accuracy", "test/accuracy"} <= set(last.values)


def test_a_launchers_variables_do_not_reach_a_run(tmp_path, monkeypatch):
    """Ray's local mode would join the process group of torchrun, and wait for its other workers."""
    launcher = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    launcher["MASTER_PORT"] = "29511"
    for name, value in launcher.items():
        monkeypatch.setenv(name, value)
    worker = threading.Thread(target=alone, args=(tmp_path / "a",), daemon=True)
    worker.start()
    worker.join(100)
    assert not worker.is_alive(), "it waits"
    assert (tmp_path / "a" / "weights.pt").exists()
    with without_launcher():
        assert not launcher.keys() & os.environ.keys()
    assert {name: os.environ[name] for name in launcher} == launcher


def test_threads_and_precision_are_a_runs_own_and_recorded(tmp_path, monkeypatch):
    before = settings()
    flags = []
    for precision, flag in (("float32", "ieee"), ("tf32", "tf32")):
        given = job(tmp_path / precision, threads=2)
        run = Run(RUN.recipe.put({"optimizer.precision": precision, "optimizer.epochs": 1}), 0)
        said = trained(Job(**{**dict(given), "run": run}))
        found = json.loads(said[-1]["environment"])
        flags.append((found["threads"], found["matmul_fp32_precision"], found["conv_fp32_precision"]))
        assert flags[-1] == (2, flag, flag)
        assert not found["deterministic"]
        assert settings() == before


@pytest.mark.parametrize(("precision", "tf32"), [("float32", False), ("tf32", True), ("bfloat16", False)])
def test_torchs_older_flags_say_the_same(precision, tf32):
    """Libraries read them, and it is an error to do so where the newer ones say something else."""
    before = settings()
    with runtime(1, precision):
        assert torch.backends.cuda.matmul.allow_tf32 == torch.backends.cudnn.allow_tf32 == tf32
        assert torch.get_float32_matmul_precision() == ("high" if tf32 else "highest")
        with torch.backends.cudnn.flags(enabled=True):
            pass
    assert settings() == before


SWITCHES = """
import timm, torch
timm.layers.set_fused_attn(False)  # to look at attention
timm.layers.set_exportable(True)
torch.set_float32_matmul_precision("medium")
torch.backends.mkldnn.conv.fp32_precision = "bf16"
torch.backends.cuda.enable_flash_sdp(False)
torch.backends.cudnn.benchmark = True
torch.set_default_dtype(torch.float64)
torch.set_grad_enabled(False)
"""


def test_what_a_users_file_sets_in_the_process_is_in_no_run(tmp_path):
    """Runs of other arms train in the same process, and their keys know nothing of that file."""
    plain = alone(tmp_path / "a")
    with runtime(1, "float32"):  # puts back what the file sets
        load("mine.py", SWITCHES)
        switched = switches()
        after, during = [], []

        def report(said: dict) -> bool:
            after.append(said)
            during.append(switches())
            return True

        work(job(tmp_path / "b"), report)
        assert switches() == switched, "the user's own process is as the user left it"
    assert {*during} == {(True, False, "ieee", "ieee", True, False, torch.float32, True)}
    assert losses(after) == losses(plain)
    ours, theirs = (read(tmp_path / name / "weights.pt") for name in "ab")
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def switches() -> tuple:
    backends, layers = torch.backends, timm.layers
    return (
        layers.use_fused_attn(), layers.is_exportable(), backends.mkldnn.matmul.fp32_precision,
        backends.mkldnn.conv.fp32_precision, backends.cuda.flash_sdp_enabled(), backends.cudnn.benchmark,
        torch.get_default_dtype(), torch.is_grad_enabled(),
    )  # fmt: skip


def test_a_job_with_gradient_checkpointing_says_so_and_has_the_same_numbers(tmp_path):
    plain, again = (trained(job(tmp_path / str(given), grad_checkpointing=given)) for given in (False, True))
    assert [json.loads(said[-1]["environment"])["grad_checkpointing"] for said in (plain, again)] == [False, True]
    assert losses(again) == losses(plain)


@pytest.mark.slow
@pytest.mark.gate
def test_a_compiled_job_says_so_and_in_how_many_graphs(tmp_path, monkeypatch, request):
    if request.config.getoption("--processor") is not None:
        pytest.skip("torch compiles nothing inside a mode such as that of a played processor")
    monkeypatch.setattr(compilation, "compiled", partial(compilation.compiled, backend="eager"))
    whole, said = alone(tmp_path / "a"), trained(job(tmp_path / "b", compile=True))
    assert losses(said) == losses(whole)
    environments = [json.loads(one[-1]["environment"]) for one in (whole, said)]
    assert [environment["compile"] for environment in environments] == [False, True]
    assert "graphs" not in environments[0]
    assert environments[1]["graphs"] >= 2  # a full batch and the last one; the checks of shapes in tests add graphs


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_job_is_compiled_by_inductor(tmp_path):
    """In a process without the checks of shapes, which would give hundreds of small graphs."""
    given = job(tmp_path / "b", compile=True)
    code = "import json, sys; from trainables.launch.job import Job; from trainables.launch.worker import work; "
    code += "said = []; work(Job.read(json.loads(sys.argv[1])), lambda one: said.append(one) is None); "
    code += "print(json.dumps(said))"
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(given.plain())],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[4],
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert losses(said) == pytest.approx(losses(alone(tmp_path / "a")), abs=1e-5)
    assert json.loads(said[-1]["environment"])["graphs"] == 2


@LINUX
def test_memory_is_given_back_after_a_run(tmp_path, monkeypatch):
    """glibc keeps what a run freed: here 300 MB in pieces too small to be mapped."""

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    pieces = [bytearray(60_000) for _ in range(5_000)]
    last = bytearray(60_000)  # the end of the heap stays in use
    before = resident()
    pieces.clear()
    release_memory()
    assert before - resident() > 250_000_000, before - resident()
    assert len(last) == 60_000
    released = []
    monkeypatch.setattr("trainables.training.runtime.release_memory", lambda: released.append(True))
    alone(tmp_path / "a")
    assert released == [True]


def test_a_run_that_is_ended_by_its_report_leaves_a_checkpoint(tmp_path):
    work(job(tmp_path / "a"), lambda message: False)
    assert (tmp_path / "a" / "checkpoint.pt").exists()


@pytest.fixture(scope="module")
def ray_here():
    import ray

    from service.execution import ray_session

    ray_session.clear_cached_token()  # tests with a cluster of their own have left theirs
    ray.init(address="local", num_cpus=2, include_dashboard=True, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


def left(ray) -> list[str]:
    """The placement groups that hold resources, and the actors that live, but for the one that Ray keeps a cluster."""
    from ray.util.state import list_actors

    groups = [group["state"] for group in ray.util.placement_group_table().values()]
    here = ray.get_runtime_context().gcs_address  # another Ray may run on this machine
    actors = [actor.class_name for actor in list_actors(here, filters=[("state", "=", "ALIVE")])]
    return [one for one in groups + actors if one not in ("REMOVED", "_AutoscalingCoordinatorActor")]


def left_after(ray, patience_s: float = 20) -> list[str]:
    until = time.monotonic() + patience_s
    while (found := left(ray)) and time.monotonic() < until:
        time.sleep(0.3)
    return found


@pytest.mark.slow
def test_a_group_says_what_one_process_says(ray_here, tmp_path):
    group = Group(job(tmp_path / "g", workers=2))
    said = list(iter(group.next, None))
    group.close()
    assert losses(said) == pytest.approx(losses(alone(tmp_path / "a")), abs=1e-5)
    assert [one["epoch"] for one in said] == [1, 2, 3]
    assert json.loads(said[-1]["environment"])["workers"] == 2
    assert (tmp_path / "g" / "weights.pt").exists()
    assert left_after(ray_here) == []


@pytest.mark.slow
def test_a_group_that_is_closed_ends_with_a_checkpoint_and_leaves_nothing(ray_here, tmp_path):
    group = Group(job(tmp_path / "g", workers=2))
    assert group.next()["epoch"] == 1
    group.close()
    assert (tmp_path / "g" / "checkpoint.pt").exists()
    assert not (tmp_path / "g" / "weights.pt").exists()
    assert left_after(ray_here) == []


def test_a_run_that_begins_again_after_a_damaged_checkpoint_says_so(tmp_path):
    given = job(tmp_path / "a")
    (tmp_path / "a" / "checkpoint.pt").write_bytes(b"cut")
    said = trained(given)
    assert {one["note"] for one in said} == {BEGAN_AGAIN}
    assert losses(said) == losses(alone(tmp_path / "b"))


def test_a_divergence_ends_a_run_and_says_where():
    said = message(RUN, Diverged(epoch=2, reason="weights not finite"), Job.read(job_plain()))
    assert (said["kind"], said["epoch"]) == ("diverged", 2)
    assert json.loads(said["environment"])["python"]


def job_plain() -> dict:
    return Job(run=RUN, code=code_of(RUN.recipe), label="0", attempt=1, folder="/nowhere").plain()


def test_a_deterministic_job_says_so(tmp_path):
    given = job(tmp_path / "run", deterministic=True)
    assert json.loads(trained(given)[-1]["environment"])["deterministic"]
    assert not torch.are_deterministic_algorithms_enabled()


def test_it_trains_one_epoch_at_a_time(tmp_path):
    training = Alone(job(tmp_path / "a"))
    training.next()
    trained(job(tmp_path / "b"))  # a whole training: time enough for the other one, if it did not wait
    assert not (tmp_path / "a" / "weights.pt").exists()
    training.close()
    assert [path.name for path in Path(tmp_path / "a").iterdir()] == ["checkpoint.pt"]
    assert len(Progress.read(read(tmp_path / "a" / "checkpoint.pt")["progress"]).curve) == 1


def test_closing_waits_until_the_checkpoint_is_written(tmp_path):
    """If it did not, the process of the training could end before."""
    training = Alone(job(tmp_path / "a"))
    training.next()
    training.close()
    assert not training._training.is_alive()
    assert (tmp_path / "a" / "checkpoint.pt").exists()


def test_an_error_of_the_training_is_raised_where_its_next_message_is_awaited(tmp_path):
    given = job(tmp_path / "a")
    (tmp_path / "a" / "checkpoint.pt").mkdir()
    training = Alone(given)
    with pytest.raises(WorkError, match=r"\(checkpoint\.py, line \d+\)$"):
        training.next()
    training.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_training_that_ends_its_thread_is_waited_for_no_longer(tmp_path, monkeypatch):
    """Code of a user's own may call `sys.exit`."""
    monkeypatch.setattr(threaded, "work", lambda job, report: sys.exit(3))
    training = Alone(job(tmp_path / "a"))
    assert training.next() is None
    training.close()


SMALL_GPU = '''
from typing import Literal

import torch
from torch import nn
from trainables.encodings import EncodingSpec
from trainables.encodings.encoding_torch import PositionEncoding

class Small(EncodingSpec):
    """Changes nothing; in training its memory is too small for more than `holds` images, from a step on."""

    kind: Literal["mine.py:Small"] = "mine.py:Small"
    holds: int = 20
    first: int = 0
    norm: bool = False

    def build(self, widths, grid, depth):
        return SmallModule(self, widths.dim)


class SmallModule(PositionEncoding):
    def __init__(self, spec, dim):
        super().__init__()
        self.spec, self.calls = spec, 0
        self.norm = nn.BatchNorm1d(dim) if spec.norm else nn.Identity()

    def tokens(self, t, block):
        if self.training:
            self.calls += 1
            if self.calls > self.spec.first and len(t.x) > self.spec.holds:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return t

    def init_parameter(self, name, value, stream):
        value.fill_(1.0)
'''


def job_of(folder, run):
    folder.mkdir()
    return Job(run=run, code=code_of(run.recipe), label="0", attempt=1, folder=str(folder))


def small_gpu(**values):
    """The run of 130 images in batches of 40, on a GPU with a small memory."""
    encoding = OwnEncoding(kind="mine.py:Small", source=SMALL_GPU, **values)
    return Run(RUN.recipe.put({"encoding": encoding}), 1)


def in_two_parts():
    """The same run on a large GPU, with a recipe that asks for two parts."""
    return Run(small_gpu(holds=40).recipe.put({"optimizer.accumulate": 2}), 1)


def trained_in(folder, run):
    said = []
    work(job_of(folder, run), lambda message: said.append(message) is None)
    return said


def test_a_batch_that_does_not_fit_is_computed_in_parts(tmp_path):
    said = trained_in(tmp_path / "a", small_gpu(holds=20))
    in_parts = trained_in(tmp_path / "b", in_two_parts())
    assert losses(said) == losses(in_parts)
    assert json.loads(said[-1]["environment"])["accumulate"] == 2
    assert {one["note"] for one in said} == {
        "the GPU's memory did not hold a batch: it is computed in 2 times as many parts"
    }
    assert {one["note"] for one in in_parts} == {""}


def test_a_later_failure_goes_on_from_whole_epochs(tmp_path):
    """Four batches an epoch: the sixth, in the second epoch, does not fit."""
    said = trained_in(tmp_path / "a", small_gpu(holds=20, first=5))
    assert [one["epoch"] for one in said] == [1, 1, 2, 3], "no checkpoint was due, so the run began again"
    in_parts = trained_in(tmp_path / "b", in_two_parts())
    assert losses(said)[1:] == losses(in_parts)


def test_a_second_failure_is_one_sentence_of_advice(tmp_path):
    with pytest.raises(WorkError) as caught:
        trained_in(tmp_path / "a", small_gpu(holds=19))
    assert str(caught.value).startswith("optimizer.batch_size must fit into the GPU's memory, got 40 images in 2 parts")
    for advice in ("GiB a run were predicted", "optimizer.accumulate", "optimizer.batch_size", "--runs-per-gpu"):
        assert advice in str(caught.value)
    assert len(str(caught.value)) <= 400


def test_a_batch_norm_of_ones_own_must_see_whole_batches(tmp_path):
    with pytest.raises(WorkError, match=r"got 40 images in 1 part; .*; a batch norm that learns must see a batch as a"):
        trained_in(tmp_path / "a", small_gpu(norm=True))


def test_what_cannot_be_cut_is_refused_at_once():
    norms = RUN.recipe.put({"encoding": PEG(form="depthwise_stack")})
    ones = RUN.recipe.put({"optimizer.batch_size": 1})
    for recipe, workers, why in (
        (norms, 1, "a batch norm that learns must see a batch as a whole"),
        (RUN.recipe, 2, "a group of workers is not trained again in more parts"),
        (ones, 1, "got 1 images in 1 part"),
    ):
        with pytest.raises(GpuMemoryError, match=why):
            check_parts(recipe, workers, "cpu")
    check_parts(RUN.recipe, 1, "cpu")
