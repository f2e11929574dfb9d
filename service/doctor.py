"""Examines this machine and a cluster: packages, tokens, MLflow, disks, clocks, GPUs, memory, and each node."""

from __future__ import annotations

import ipaddress
import os
import platform
import shutil
import socket
import stat
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import requests
from packaging.requirements import Requirement

from search_spaces.words import plural
from service.execution import machine
from service.execution.job_messages import Nodes
from service.execution.submission import Submission, ask
from service.planning.run_options import RunOptions
from service.storage.home import Home, without_secrets
from trainables.cgroup import cores
from trainables.data.folder import FOLDER, mistakes, no_folder, sources, unread
from trainables.data.folder_files import SPLITS, ImageFile, Layout, layout, shown
from trainables.remote_files import RemoteFolder
from trainables.spec import LocusError, Spec, absolute

if TYPE_CHECKING:
    from service.execution.ray_session import NodeAnswer

State = Literal["ok", "look", "wrong"]
"""`look`: studies run, but perhaps not as their user expects."""


class Finding(Spec):
    """One thing that was examined. `do`: what to do about it; empty if nothing is to be done."""

    name: str
    state: State
    detail: str
    do: str = ""


GIB = 2**30
LITTLE_GIB, TOO_LITTLE_GIB = 10.0, 1.0
"""Free disk that is worth a look, and that ends the first study."""
CLOCK_S = 5.0
"""How far two clocks may be apart before times in journals and logs mislead."""
OTHER_GPUS = Path("/dev/kfd")
"""AMD's driver, whose GPUs a torch with ROCm sees."""
OPEN = "can be written by everybody, who could change answers there"
INSTALL = "in a checkout of locus: pip install -c constraints.txt '.[train]'"
RUN_GIB = 0.8
"""The least memory of a run: a process with torch."""


def examine(options: RunOptions, tracking: str | None) -> Iterator[Finding]:
    """Yields what is found on this machine, one after another.

    `tracking`: the address of MLflow; None is that of the home.
    """
    home = Home.find(options.home)
    yield packages()
    yield token()
    yield mlflow(home, tracking)
    yield from folders(home)
    if options.storage is not None:
        yield storage(options.storage)
    yield gpus()
    yield memory(options)
    if machine.gpus():
        yield from speeds()


def packages() -> Finding:
    """Checks whether the installed packages are those that locus asks for."""
    wrong, installed = [], []
    try:
        asked_for = requires("locus") or ()
    except PackageNotFoundError:
        return Finding("packages", "look", "locus itself is not installed: its versions are unknown", INSTALL)
    for text in asked_for:
        asked = Requirement(text)
        if asked.marker is not None and not asked.marker.evaluate({"extra": "train"}):
            continue
        try:
            there = version(asked.name)
        except PackageNotFoundError:
            wrong.append(f"{asked.name} is missing")
            continue
        if asked.name in ("ray", "torch", "mlflow"):
            installed.append(f"{asked.name} {there}")
        if not asked.specifier.contains(there, prereleases=True):
            wrong.append(f"{asked.name} {there}, asked for is {asked.specifier}")
    if wrong:
        return Finding("packages", "wrong", "; ".join(wrong), INSTALL)
    return Finding("packages", "ok", ", ".join(installed))


def token() -> Finding:
    """Checks whether the token of Ray's clusters is readable by its owner alone."""
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or "~/.ray/auth_token").expanduser()
    if not path.exists():
        what = "none yet; a study on this machine makes one"
        return Finding("token", "look", f"{path}: {what}", "for a cluster, copy the cluster's token there (chmod 600)")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return Finding("token", "wrong", f"{path} has the mode {mode:o}: others can read it", f"chmod 600 {path}")
    if not path.read_text(encoding="utf-8").strip():
        return Finding("token", "wrong", f"{path} is empty", "write the cluster's token into it")
    return Finding("token", "ok", f"{path}, for its owner alone")


def mlflow(home: Home, tracking: str | None) -> Finding:
    """Checks whether MLflow's address means the same place for every process, and answers."""
    if tracking is None:
        return Finding("MLflow", "ok", f"the store in the home ({home.database})")
    shown = without_secrets(tracking)
    if _is_relative(tracking):
        what = f"{shown} is a relative path, another place for each process and node"
        return Finding("MLflow", "wrong", what, "give an absolute path, or the address of a server")
    from service.tracking.sync import check  # it imports MLflow

    try:
        check(home, tracking)
    except LocusError as error:
        return Finding("MLflow", "wrong", str(error), "start the server, or correct MLFLOW_TRACKING_URI")
    return Finding("MLflow", "ok", shown)


def _is_relative(tracking: str) -> bool:
    scheme, colon, rest = tracking.partition(":")
    if not colon:
        return not tracking.startswith("/")
    if scheme == "sqlite":
        return not rest.startswith("////")
    return scheme == "file" and not urlsplit(tracking).path.startswith("/")


def folders(home: Home) -> Iterator[Finding]:
    """Checks the home: that it can be written, but not by everybody, its room, and its clock against this machine's."""
    try:
        Home.usable(home.root)
    except LocusError as error:
        yield Finding("home", "wrong", str(error), "give another folder by --home or LOCUS_HOME")
        return
    there = home.root if home.root.exists() else next(folder for folder in home.root.parents if folder.exists())
    if home.root.exists() and is_world_writable(home.root):
        yield Finding("home", "wrong", f"{home.root} {OPEN}", f"chmod o-w {home.root}")
    else:
        yield Finding("home", "ok", str(home.root))
    yield disk(str(there), shutil.disk_usage(there).free / GIB)
    yield clock(there)


def is_world_writable(folder: Path) -> bool:
    """Returns whether everybody may write a folder and remove what others wrote there."""
    mode = folder.stat().st_mode
    return bool(mode & stat.S_IWOTH and not mode & stat.S_ISVTX)


def disk(where: str, free: float) -> Finding:
    """Checks whether there is room for weights and checkpoints. Units: `free` in GiB."""
    state: State = "wrong" if free < TOO_LITTLE_GIB else "look" if free < LITTLE_GIB else "ok"
    do = "" if state == "ok" else "make room, or give another folder by --home"
    return Finding("disk", state, f"{free:.1f} GiB are free in {where}", do)


def clock(folder: Path) -> Finding:
    """Checks whether the file server's clock agrees with this machine's."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            os.utime(file.fileno())
            apart = os.fstat(file.fileno()).st_mtime - time.time()
    except OSError as error:
        return Finding("clock", "look", f"{folder} cannot be written ({error.strerror})", "see home")
    return clocks_apart(f"the clock of {folder}", apart)


def clocks_apart(whose: str, apart: float) -> Finding:
    """Returns a finding on a clock that is some seconds ahead of this machine's (behind, where negative)."""
    if abs(apart) <= CLOCK_S:
        return Finding("clock", "ok", f"{whose} agrees to {CLOCK_S:g} s")
    side = "ahead" if apart > 0 else "behind"
    return Finding("clock", "look", f"{whose} is {abs(apart):.0f} s {side}", "synchronize clocks (NTP)")


def storage(uri: str) -> Finding:
    """Checks whether a storage can be written."""
    try:
        RemoteFolder(uri).check()
    except LocusError as error:
        return Finding("storage", "wrong", str(error), "correct the URI, or set the credentials in the environment")
    return Finding("storage", "ok", f"{uri} can be written")


def gpus() -> Finding:
    """Checks whether torch sees the GPUs that the driver shows to this process.

    Cost: 2 s where it shows any, for torch.
    """
    there = machine.gpus()
    if sys.platform == "darwin":
        return Finding("GPUs", "ok", "this machine has none of NVIDIA's; studies train on the CPU, not on Apple's GPU")
    if not there and not OTHER_GPUS.exists():
        return gpus_of("this machine", 0, 0)
    import torch

    return gpus_of("this machine", there, torch.cuda.device_count())


def speeds() -> Iterator[Finding]:
    """Trains ViT-S/16 on the first GPU, and decodes photographs on the cores: what limits a training here.

    Cost: about 20 s; nothing stays.
    """
    import torch

    from trainables.launch.speed import BATCH, SIDE, decoding_speed, training_speed

    try:
        learned, gib = training_speed("cuda")
    except (RuntimeError, OSError) as error:
        yield Finding("speed", "wrong", f"a training on the GPU fails: {str(error).partition(chr(10))[0]}", "see GPUs")
        return
    total = torch.cuda.get_device_properties(0).total_memory / GIB
    what = f"ViT-S/16 at {SIDE} px learns from {learned:,.0f} images/s in bfloat16, {BATCH} a step"
    yield Finding("speed", "ok", f"{what}, in {gib:.1f} of {total:.0f} GiB")
    yield feeding(learned, decoding_speed(workers := max(1, cores() - 1), "cuda"), workers)


def feeding(learned: float, decoded: float, workers: int) -> Finding:
    """Returns a finding on how many images a second the cores decode beside those that a GPU learns from."""
    decode = "decodes" if workers == 1 else "decode"
    what = f"{plural(workers, 'loader worker')} {decode} {decoded:,.0f} photographs/s with DeiT's augmentation"
    if decoded >= learned:
        return Finding("images", "ok", f"{what}: more than the GPU learns from")
    do = (
        "nothing for sets that fit into memory, which are decoded once; else a larger model, or more cores for each GPU"
    )
    return Finding("images", "look", f"{what}, {decoded / learned:.0%} of what the GPU learns from: they limit it", do)


def gpus_of(whose: str, there: int, seen: int) -> Finding:
    """Returns a finding on the GPUs of a node: those of NVIDIA's driver, and those that torch sees."""
    if seen > there:
        what = f"torch sees {plural(seen, 'GPU')} of {whose}, NVIDIA's driver {there}: studies train on the CPU"
        return Finding("GPUs", "look", what, "locus trains on NVIDIA's GPUs alone; is one hidden by a container?")
    if there > seen:
        do = "install a torch with CUDA that fits the driver"
        return Finding("GPUs", "wrong", f"torch sees {seen} of {plural(there, 'GPU')} of {whose}", do)
    return Finding("GPUs", "ok", f"{whose} has {plural(there, 'GPU')}" if there else f"{whose} has none")


def memory(options: RunOptions) -> Finding:
    """Checks whether a run on each core would have the memory that the smallest one needs."""
    hardware = machine.machine(options)
    return memory_of("this machine", hardware.cores, sum(node.gib for node in hardware.nodes))


def memory_of(whose: str, cores: int, gib: float) -> Finding:
    """Returns a finding on the memory of a node beside its cores. Units: `gib` in GiB."""
    what = f"{whose} has {gib:.1f} GiB for {cores} cores"
    if not cores:
        return Finding("memory", "ok", f"{what}: no run is placed there")
    each = gib / cores
    if each >= RUN_GIB:
        return Finding("memory", "ok", f"{what}: {each:.1f} GiB for each of as many runs")
    fit = int(gib / RUN_GIB)
    do = "nothing, where fewer concurrent runs are wanted; else add memory"
    return Finding("memory", "look", f"{what}: only {fit} of the smallest runs fit", do)


AHEAD = 1024
"""Images that wait for a thread, at most."""
MEND = "replace it, or remove it"
HOW = "see 'The folder' in docs/images.md"


def examine_images(path: str, progress: Callable[[int, int], None]) -> Iterator[Finding]:
    """Yields what is found in a folder of images, one finding a damaged or refused file.

    `progress` is told how many images of how many were read. Nothing is written.
    """
    root = absolute(path)
    if not os.path.isdir(root):
        yield Finding("folder", "wrong", f"the path must be {FOLDER}, got {no_folder(root)}", HOW)
        return
    contents = layout(root)
    yield from _splits(contents)
    for flaw in contents.flaws:
        yield Finding("file", "wrong", shown(f"{flaw.at}: {flaw.why}"), MEND)
    for must, got in list(mistakes(contents))[len(contents.flaws) :]:
        yield Finding("layout", "wrong", f"the path must be {must}, got {got}", HOW)
    if contents.unread:
        yield Finding("files", "look", unread(contents), "convert what should be read to png or jpg")
    images = [*contents.files]
    damaged = 0
    for number, why in enumerate(_flaws(images), 1):
        if why:
            damaged += 1
            yield Finding("image", "wrong", shown(why), MEND)
        progress(number, len(images))
    if images and not damaged:
        yield Finding("images", "ok", f"{plural(len(images), 'image')}, each of which can be read")


def _splits(contents: Layout) -> Iterator[Finding]:
    """Yields how many images of how many classes each split has, and which split of a run it becomes."""
    used = sources([len(contents.images[split]) for split in SPLITS])
    for own, split, use in zip(SPLITS, used, ("to train", "to validate", "to test"), strict=True):
        if split != own and contents.folders[split]:
            yield Finding(use, "ok", shown(f"held out of {contents.folders[split][0]}/"))
        elif images := contents.images[split]:
            count = len({file.label for file in images})
            classes = "1 class" if count == 1 else f"{count:,} classes"
            folders = shown(" and ".join(f"{name}/" for name in contents.folders[split]))
            yield Finding(use, "ok", f"{plural(len(images), 'image')} of {classes} ({folders})")


def _flaws(images: list[ImageFile]) -> Iterator[str]:
    """Yields why each image cannot be read, empty if it can.

    Read in threads, for Pillow decodes without Python's lock.
    """
    from PIL import Image

    from trainables.data.upright_rgb import opened

    def flaw(file: ImageFile) -> str:
        try:
            opened(file.at, partial(Image.open, file.at)).close()
        except LocusError as error:
            return str(error)
        return ""

    pool = ThreadPoolExecutor(cores())
    try:
        for first in range(0, len(images), AHEAD):
            yield from pool.map(flaw, images[first : first + AHEAD])
    finally:
        pool.shutdown(cancel_futures=True)


def seen_by_node(home: str, mark: str) -> dict[str, Any]:
    """Returns what a node is and sees. `mark`: a file in the home that the driver has just written.

    Units: `time` in seconds since 1970, `free` in GiB; None if the node does not see the home.
    """
    import torch

    folder = Path(home)
    there = folder.is_dir()
    return {
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "time": time.time(),
        "shared": (folder / mark).exists(),
        "open": there and is_world_writable(folder),
        "free": shutil.disk_usage(folder).free / GIB if there else None,
        "gpus": machine.gpus(),
        "gpus_of_torch": torch.cuda.device_count(),
    }


def examine_cluster(address: str, home: str | None) -> Iterator[Finding]:
    """Yields what is found at a cluster.

    An open one is not used: nothing is sent there. `home`: that of the cluster.
    """
    from service.execution.jobs import JobError, connect

    if is_open(address):
        do = "start every node with RAY_AUTH_MODE=token, and keep its ports off public networks"
        yield Finding("access", "wrong", f"{address} runs the code of whoever reaches it, without a token", do)
        return
    try:
        client = connect(address)
    except JobError as error:
        yield Finding("cluster", "wrong", str(error), "see deploy/README.md")
        return
    yield Finding("cluster", "ok", f"{address} takes jobs with this token, and has this Ray")
    yield secrecy(address)
    try:
        findings = ask(Submission(client, address, "doctor", "", home), Nodes(home=home))
    except LocusError as error:
        yield Finding("nodes", "wrong", str(error), "look at the job in Ray's dashboard")
        return
    yield from map(Finding.read, findings)


def is_open(address: str) -> bool:
    """Returns whether a cluster lists its jobs for somebody without a token. False if it does not answer."""
    from service.execution.jobs import ANSWER_S

    try:
        return requests.get(f"{address.rstrip('/')}/api/jobs/", timeout=ANSWER_S).ok
    except requests.RequestException:
        return False


def secrecy(address: str) -> Finding:
    """Checks whether the token travels so that others on the network can read it."""
    parts = urlsplit(address)
    if parts.scheme == "https" or _is_loopback(parts.hostname or ""):
        return Finding("access", "ok", "a token is asked for, and does not travel in the open")
    what = f"the token travels unencrypted to {parts.hostname}"
    return Finding("access", "look", what, "use an SSH tunnel (ssh -L 8265:localhost:8265 HEAD) or https")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def examine_nodes(home: Home) -> list[Finding]:
    """Returns what is found on each node. A file is written into the home, to see which nodes see it, and removed."""
    from service.execution.ray_session import ask_nodes

    mark = f".doctor-{uuid.uuid4().hex}"
    Home.usable(home.root).root.mkdir(parents=True, exist_ok=True)
    try:
        (home.root / mark).touch()
        answers = ask_nodes("auto", seen_by_node, str(home.root), mark)
    finally:
        (home.root / mark).unlink(missing_ok=True)
    return [finding for answer in answers for finding in of_node(answer, home)]


def of_node(node: NodeAnswer, home: Home) -> Iterator[Finding]:
    """Yields what the answer of one node tells."""
    if node.answer is None:
        do = "install the same Python there, and in a checkout of locus: pip install '.[train]'"
        yield Finding(f"node {node.address}", "wrong", f"it does not answer: {node.error}", do)
        return
    seen, name = node.answer, f"node {node.address}"
    whose = f"{seen['host']} ({node.address})"
    if seen["python"] != platform.python_version():
        what = f"{whose} has Python {seen['python']}, the head {platform.python_version()}"
        yield Finding("packages", "wrong", what, "use the same on all nodes")
    else:
        yield Finding(name, "ok", f"{seen['host']}, Python {seen['python']}, torch {seen['torch']}")
    if not seen["shared"]:
        do = "give a folder that all nodes share, or a --storage URI"
        yield Finding("home", "wrong", f"{whose} does not see {home.root} as the head does", do)
    elif seen["open"]:
        yield Finding("home", "wrong", f"{home.root} {OPEN}", f"chmod o-w {home.root}")
    if seen["free"] is not None:
        yield disk(f"{home.root} of {whose}", seen["free"])
    ahead, behind = max(0.0, seen["time"] - node.came), max(0.0, node.sent - seen["time"])
    yield clocks_apart(f"the clock of {whose}", ahead - behind)
    yield gpus_of(whose, seen["gpus"], seen["gpus_of_torch"])
    yield memory_of(whose, node.cores, node.gib)
