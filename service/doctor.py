"""Examines this machine (packages, token, MLflow, disk, clock, GPUs, memory), a folder of images, or a cluster."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import requests
from packaging.requirements import Requirement

from search_spaces.words import plural
from service.execution import machine
from service.planning.run_options import RunOptions
from service.storage.home import Home, without_secrets
from trainables.cgroup import cores
from trainables.data.folder import FOLDER, mistakes, no_folder, sources, unread
from trainables.data.folder_files import SPLITS, ImageFile, layout, shown
from trainables.remote_files import RemoteFolder
from trainables.spec import LocusError, Spec, absolute

State = Literal["ok", "look", "wrong"]
"""`look` means that studies run, but perhaps not as their user expects; `wrong` must be mended."""


class Finding(Spec):
    """Says in which state one examined thing is. `do` says what to do about it; it is empty if nothing must be done."""

    name: str
    state: State
    detail: str
    do: str = ""


LITTLE_GIB, TOO_LITTLE_GIB = 10.0, 1.0
"""Free disk space in GiB: below the first number it is worth a look, below the second the first study fails."""
CLOCK_S = 5.0
"""How many seconds the clocks of the home's disk and of this machine may differ, before times in journals mislead."""
INSTALL = "in a checkout of locus: pip install -c constraints.txt '.[train]'"
RUN_GIB = 0.8
"""The memory, in GiB, that the smallest run needs: that of a process with torch."""


def examine(options: RunOptions, tracking: str | None) -> Iterator[Finding]:
    """Yields a finding for each thing that is examined on this machine.

    `tracking` is the address of MLflow; None means the MLflow store in the home.
    """
    home = Home.find(options.home)
    yield packages()
    yield token()
    yield mlflow(home, tracking)
    yield from folders(home)
    if options.storage is not None:
        yield storage(options.storage)
    yield gpus()
    hardware = machine.machine(options)
    yield memory_of(hardware.cores, sum(node.gib for node in hardware.nodes))


def packages() -> Finding:
    """Checks whether the versions of the installed packages are those that locus requires."""
    wrong, installed = [], []
    try:
        requirements = requires("locus") or ()
    except PackageNotFoundError:
        return Finding("packages", "look", "locus itself is not installed: its versions are unknown", INSTALL)
    for requirement in map(Requirement, requirements):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": "train"}):
            continue
        name = requirement.name
        try:
            present = version(name)
        except PackageNotFoundError:
            wrong.append(f"{name} is missing")
            continue
        if name in ("ray", "torch", "mlflow"):
            installed.append(f"{name} {present}")
        if not requirement.specifier.contains(present, prereleases=True):
            wrong.append(f"{name} {present}, asked for is {requirement.specifier}")
    if wrong:
        return Finding("packages", "wrong", "; ".join(wrong), INSTALL)
    return Finding("packages", "ok", ", ".join(installed))


def token() -> Finding:
    """Checks whether the token for Ray's clusters is there, and only its owner can read it."""
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or "~/.ray/auth_token").expanduser()
    if not path.exists():
        detail = f"{path}: none yet; a study on this machine makes one"
        return Finding("token", "look", detail, "for a cluster, copy the cluster's token there (chmod 600)")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return Finding("token", "wrong", f"{path} has the mode {mode:o}: others can read it", f"chmod 600 {path}")
    if not path.read_text(encoding="utf-8").strip():
        return Finding("token", "wrong", f"{path} is empty", "write the cluster's token into it")
    return Finding("token", "ok", f"{path}, for its owner alone")


def mlflow(home: Home, tracking: str | None) -> Finding:
    """Checks whether MLflow's address means the same place for every process, and whether MLflow answers there."""
    if tracking is None:
        return Finding("MLflow", "ok", f"the store in the home ({home.database})")
    address = without_secrets(tracking)
    scheme, colon, rest = tracking.partition(":")
    if not colon:
        is_relative = not tracking.startswith("/")
    elif scheme == "sqlite":
        is_relative = not rest.startswith("////")
    else:
        is_relative = scheme == "file" and not urlsplit(tracking).path.startswith("/")
    if is_relative:
        detail = f"{address} is a relative path, another place for each process and node"
        return Finding("MLflow", "wrong", detail, "give an absolute path, or the address of a server")
    from service.tracking.sync import check  # it imports MLflow

    try:
        check(home, tracking)
    except LocusError as error:
        return Finding("MLflow", "wrong", str(error), "start the server, or correct MLFLOW_TRACKING_URI")
    return Finding("MLflow", "ok", address)


def folders(home: Home) -> Iterator[Finding]:
    """Yields findings on the home: who can write it, its free disk space, and whether its clock agrees with ours."""
    try:
        Home.usable(home.root)
    except LocusError as error:
        yield Finding("home", "wrong", str(error), "give another folder by --home or LOCUS_HOME")
        return
    folder = next(folder for folder in (home.root, *home.root.parents) if folder.exists())
    mode = folder.stat().st_mode
    if folder == home.root and mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        detail = f"{home.root} can be written by everybody, who could change answers there"
        yield Finding("home", "wrong", detail, f"chmod o-w {home.root}")
    else:
        yield Finding("home", "ok", str(home.root))
    free = shutil.disk_usage(folder).free / 2**30
    state: State = "wrong" if free < TOO_LITTLE_GIB else "look" if free < LITTLE_GIB else "ok"
    do = "" if state == "ok" else "make room, or give another folder by --home"
    yield Finding("disk", state, f"{free:.1f} GiB are free in {folder}", do)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            os.utime(file.fileno())
            yield clocks_apart(folder, os.fstat(file.fileno()).st_mtime - time.time())
    except OSError as error:
        yield Finding("clock", "look", f"{folder} cannot be written ({error.strerror})", "see home")


def clocks_apart(folder: Path, apart: float) -> Finding:
    """Returns a finding on the clock of a folder's disk.

    Units: `apart` in seconds; positive if that clock is ahead of this machine's, negative if it is behind.
    """
    if abs(apart) <= CLOCK_S:
        return Finding("clock", "ok", f"the clock of {folder} agrees to {CLOCK_S:g} s")
    side = "ahead" if apart > 0 else "behind"
    return Finding("clock", "look", f"the clock of {folder} is {abs(apart):.0f} s {side}", "synchronize clocks (NTP)")


def storage(uri: str) -> Finding:
    """Checks whether a storage, the place for copies of studies, can be written."""
    try:
        RemoteFolder(uri).check()
    except LocusError as error:
        return Finding("storage", "wrong", str(error), "correct the URI, or set the credentials in the environment")
    return Finding("storage", "ok", f"{uri} can be written")


def gpus() -> Finding:
    """Checks whether torch sees exactly the GPUs that NVIDIA's driver shows to this process.

    Cost: 2 s to import torch, where there are GPUs.
    """
    present = seen = machine.gpus()
    if sys.platform == "darwin":
        return Finding("GPUs", "ok", "this machine has none of NVIDIA's; studies train on the CPU, not on Apple's GPU")
    if present or Path("/dev/kfd").exists():  # AMD's driver, whose GPUs a torch with ROCm sees
        import torch

        seen = torch.cuda.device_count()
    return gpus_of(present, seen)


def gpus_of(present: int, seen: int) -> Finding:
    """Returns a finding on GPUs: the driver of NVIDIA shows `present` of them, and torch sees `seen`."""
    if seen > present:
        detail = f"torch sees {plural(seen, 'GPU')}, NVIDIA's driver {present}: studies train on the CPU"
        return Finding("GPUs", "look", detail, "locus trains on NVIDIA's GPUs alone; is one hidden by a container?")
    if present > seen:
        do = "install a torch with CUDA that fits the driver"
        return Finding("GPUs", "wrong", f"torch sees {seen} of {plural(present, 'GPU')}", do)
    return Finding("GPUs", "ok", f"this machine has {plural(present, 'GPU')}" if present else "this machine has none")


def memory_of(cores: int, gib: float) -> Finding:
    """Returns a finding on whether this machine has memory for one run on each core. Units: `gib` in GiB."""
    detail = f"this machine has {gib:.1f} GiB for {cores} cores"
    if gib / cores >= RUN_GIB:
        return Finding("memory", "ok", f"{detail}: {gib / cores:.1f} GiB for each of as many runs")
    do = "nothing, where fewer concurrent runs are wanted; else add memory"
    return Finding("memory", "look", f"{detail}: only {int(gib / RUN_GIB)} of the smallest runs fit", do)


MEND = "replace it, or remove it"
HOW = "see 'The folder' in trainables/data/README.md"


def examine_images(path: str, progress: Callable[[int, int], None]) -> Iterator[Finding]:
    """Yields findings on a folder of images: on its parts, and one for each damaged or refused file.

    `progress` is called with the number of images that were read, and the number of all. Nothing is written.
    """
    root = absolute(path)
    if not os.path.isdir(root):
        yield Finding("folder", "wrong", f"the path must be {FOLDER}, got {no_folder(root)}", HOW)
        return
    contents = layout(root)
    sources_of_splits = sources([len(contents.images[split]) for split in SPLITS])
    for split, source, use in zip(SPLITS, sources_of_splits, ("to train", "to validate", "to test"), strict=True):
        if source != split and contents.folders[source]:
            yield Finding(use, "ok", shown(f"held out of {contents.folders[source][0]}/"))
        elif images := contents.images[source]:
            count = len({file.label for file in images})
            classes = "1 class" if count == 1 else f"{count:,} classes"
            names = shown(" and ".join(f"{name}/" for name in contents.folders[source]))
            yield Finding(use, "ok", f"{plural(len(images), 'image')} of {classes} ({names})")
    for flaw in contents.flaws:
        yield Finding("file", "wrong", shown(f"{flaw.at}: {flaw.why}"), MEND)
    for must, got in list(mistakes(contents))[len(contents.flaws) :]:
        yield Finding("layout", "wrong", f"the path must be {must}, got {got}", HOW)
    if contents.unread:
        yield Finding("files", "look", unread(contents), "convert what should be read to png or jpg")
    files, damaged = [*contents.files], 0
    for number, why in enumerate(_flaws(files), 1):
        if why:
            damaged += 1
            yield Finding("image", "wrong", shown(why), MEND)
        progress(number, len(files))
    if files and not damaged:
        yield Finding("images", "ok", f"{plural(len(files), 'image')}, each of which can be read")


def _flaws(images: list[ImageFile]) -> Iterator[str]:
    """Yields, for each image, the reason why it cannot be read; an empty text if it can.

    Several threads read the images, because Pillow decodes without holding Python's lock.
    """
    from PIL import Image

    from trainables.data.upright_rgb import opened

    def flaw(file: ImageFile) -> str:
        try:
            opened(file.at, partial(Image.open, file.at)).close()
        except LocusError as error:
            return str(error)
        return ""

    pool, ahead = ThreadPoolExecutor(cores()), 1024  # at most so many images wait for a thread
    try:
        for first in range(0, len(images), ahead):
            yield from pool.map(flaw, images[first : first + ahead])
    finally:
        pool.shutdown(cancel_futures=True)


def examine_cluster(address: str) -> Iterator[Finding]:
    """Yields a finding on a cluster: whether it takes jobs with our token and refuses others, and how large it is."""
    from service.execution.jobs import ANSWER_S, JobError, connect, resources

    try:
        is_open = requests.get(f"{address.rstrip('/')}/api/jobs/", timeout=ANSWER_S).ok
    except requests.RequestException:
        is_open = False
    if is_open:
        do = "start every node with RAY_AUTH_MODE=token, and keep its ports off public networks"
        yield Finding("access", "wrong", f"{address} runs the code of whoever reaches it, without a token", do)
        return
    try:
        nodes = resources(connect(address))
    except JobError as error:
        yield Finding("cluster", "wrong", str(error), "see deploy/README.md")
        return
    cores, gpus = (sum(int(node.get(name, 0)) for node in nodes) for name in ("CPU", "GPU"))
    size = f"{plural(len(nodes), 'node')}, {plural(cores, 'core')}, {plural(gpus, 'GPU')}"
    yield Finding("cluster", "ok", f"{address} takes jobs with this token, and has this Ray: {size}")
