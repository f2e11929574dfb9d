"""Asks a study that runs to stop or to change: by Ctrl-C, by other signals, and by a file that its driver reads.

SIGTERM, SIGHUP and SIGUSR1 (a container, Slurm or a closed terminal ends) do what the first Ctrl-C does, however often
they come. The main thread must always hear signals, so calls that may stand still, such as those of Ray, are made in
another thread.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from search_spaces.roles import MOST_SEEDS, MOST_TRIALS
from search_spaces.study import Edition
from search_spaces.words import listed, plural
from service.planning.run_options import RunOptions
from service.storage.editions import stored
from service.storage.history import History
from service.storage.home import Home, StudyFolder
from trainables.polling import poll
from trainables.spec import Field, LocusError, Spec
from trainables.whole_files import write_whole


class Control(Spec):
    """A request to change a study while it runs; a field that is None changes nothing.

    `seeds` and `trials` are new counts, which only rise. `max_concurrent` is how many runs train together from now on.
    `stop` says whether each run ends after its epoch, or all end now.
    """

    seeds: int | None = Field(default=None, ge=1, le=MOST_SEEDS)
    trials: int | None = Field(default=None, ge=1, le=MOST_TRIALS)
    max_concurrent: int | None = Field(default=None, ge=1)
    stop: Literal["after the epoch", "now"] | None = None

    def given(self) -> dict[str, Any]:
        """Returns the fields of the request that are not None, by name."""
        return {name: value for name, value in dict(self).items() if value is not None}


def ask_driver(folder: StudyFolder, request: Control) -> None:
    """Writes a request for the driver, joined with one that is not read yet; of two counts the higher one stays."""
    before, new = (_read(folder.control) or Control()).given(), request.given()
    counts = {name: max(before[name], new[name]) for name in ("seeds", "trials") if name in before and name in new}
    write_whole(folder.control, Control(**(before | new | counts)).model_dump_json())


def take_request(folder: StudyFolder) -> Control | None:
    """Removes and returns the request of another command; None without one, or if it cannot be read. Cost: 10 us."""
    taken = folder.control.with_suffix(".taken")
    try:
        os.replace(folder.control, taken)
    except FileNotFoundError:
        return None
    control = _read(taken)
    taken.unlink(missing_ok=True)
    return control


def is_to_stop(folder: StudyFolder, stop: Stop) -> bool:
    """Returns whether a signal or a request asks to stop a study that trains no more, but computes probes.

    The rest of the request stays: only a driver that trains can do it.
    """
    request = _read(folder.control)
    if request is not None and request.stop:
        stop.asked = True
        others = request.model_copy(update={"stop": None})
        if others.given():
            write_whole(folder.control, others.model_dump_json())
        else:
            take_request(folder)
    return bool(stop)


def _read(path: Path) -> Control | None:
    try:
        return Control.model_validate_json(path.read_bytes())
    except (OSError, ValueError):
        return None


STOPPING = "stopping after this epoch, press again to stop now"
ENDING = "{} received: stopping after this epoch"
ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
INSIST_S = 1.0
"""The time between two tries to interrupt the main thread: some calls ignore an interrupt. Units: seconds."""
LOOK_S = 0.1
"""The time between two looks of the thread that waits for work in another thread. Units: seconds."""
ENDS_S = 30.0
"""How long work may take to end once nobody waits for its result. Work that takes longer ends with the process. Units:
seconds."""


@dataclass
class Stop:
    """The flag that Ctrl-C, `stop` and `--hours` raise: then no run is started, and each run ends at its next report.

    `deadline` is when the flag rises by itself, in seconds of `time.monotonic`, a clock that nobody sets; None: never.
    """

    deadline: float | None = None
    asked: bool = False

    @classmethod
    def after(cls, hours: float | None) -> Stop:
        """Returns a flag that is raised after so many hours; with None it is raised only when `asked` is set."""
        return cls(deadline=time.monotonic() + hours * 3600 if hours else None)

    def __bool__(self) -> bool:
        return self.asked or (self.deadline is not None and time.monotonic() >= self.deadline)


class StopSignals:
    """Handles SIGINT and the signals of `ENDS` while a study runs. `note` prints a line, and is called in a thread.

    Presses of Ctrl-C are counted where the operating system delivers them (a wakeup pipe), because Python sees two
    presses as one while it waits in a long call, such as the start of Ray. KeyboardInterrupt is raised only within
    `interruptible`.
    """

    def __init__(self, stop: Stop, note: Callable[[str], None]) -> None:
        self._stop = stop
        self._note = note
        self._open = False
        self._now = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Handles the signals within the block, but only in the main thread.

        Raises: KeyboardInterrupt for a Ctrl-C that came before and was lost (`service.__main__.Presses`).
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        if getattr(signal.getsignal(signal.SIGINT), "came", False):
            raise KeyboardInterrupt
        end, start = os.pipe()
        os.set_blocking(start, False)
        wakeup = signal.set_wakeup_fd(start, warn_on_full_buffer=False)
        try:
            with handled(self._caught):
                threading.Thread(target=self._count, args=(end,), name="signals", daemon=True).start()
                yield
        finally:
            signal.set_wakeup_fd(wakeup)
            os.close(start)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Lets a second Ctrl-C interrupt the block."""
        self._open = True
        try:
            yield
        finally:
            self._open = False

    def _caught(self, *_: object) -> None:
        """Is Python's handler of the signals. Raises: KeyboardInterrupt at a second Ctrl-C in `interruptible`."""
        if self._now and self._open:
            raise KeyboardInterrupt

    def _count(self, end: int) -> None:
        """Reads, in a thread, one byte of a pipe for each signal, and reacts to it, until the other end is closed."""
        while byte := os.read(end, 1):
            is_press = byte[0] == signal.SIGINT
            if not is_press and byte[0] not in ENDS:
                continue
            if not self._stop.asked:
                self._stop.asked = True
                with suppress(OSError):  # the terminal may be gone
                    self._note(STOPPING if is_press else ENDING.format(signal.Signals(byte[0]).name))
            elif is_press:
                self._now = True
                while self._open:
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                    time.sleep(INSIST_S)
        os.close(end)


@contextmanager
def continued_by(line: str) -> Iterator[None]:
    """Lets Python show a line, in place of a traceback, for a Ctrl-C within the block that no code catches.

    Raises: KeyboardInterrupt with that line.
    """
    try:
        yield
    except KeyboardInterrupt:
        stopped: Any = KeyboardInterrupt(line)
        stopped._render_traceback_ = lambda: [line]  # a notebook asks the error itself
        before = sys.excepthook

        def show(kind: Any, error: BaseException, trace: Any) -> None:
            sys.excepthook = before
            if error is stopped:
                print(line, file=sys.stderr)
            else:
                before(kind, error, trace)

        sys.excepthook = show
        raise stopped from None


class Apart:
    """Does a piece of work once, in another thread. `leaving` is set when the work must end: nobody waits for it."""

    def __init__(self) -> None:
        self.leaving = threading.Event()
        self._ended = threading.Event()
        self._shares = False
        self._error: BaseException | None = None

    def do(self, work: Callable[[], None], watch: Callable[[], None] = lambda: None) -> None:
        """Does the work in a thread, and calls `watch` meanwhile. If that raises, or at Ctrl-C, it leaves the work."""

        def work_to_its_end() -> None:
            try:
                work()
            except BaseException as error:  # raised again in the other thread
                self._error = error
            finally:
                self._ended.set()

        threading.Thread(target=work_to_its_end, name="apart", daemon=True).start()
        signals_meanwhile: list[int] = []
        try:
            while not self._ended.wait(LOOK_S):
                _hear_again()
                watch()
        finally:
            # the signals that end a study are handled after the work has ended; `StopSignals` still counts them
            with handled(lambda number, _: signals_meanwhile.append(number)) as handlers:
                self.leaving.set()
                if self._shares:
                    self._ended.wait(ENDS_S)
            for number in signals_meanwhile:
                if callable(handler := handlers[number]):
                    handler(number, None)
        if self._error is not None:
            raise self._error

    def share(self) -> None:
        """Makes `do` wait for the end of the work from now on, also where it leaves the work.

        The work calls it before it starts Ray, or uses objects of the thread that waits.
        Raises: KeyboardInterrupt if the work was left before.
        """
        self._shares = True
        self.check()

    def check(self) -> None:
        """Ends the work if it was left; the work calls this now and then. Raises: KeyboardInterrupt."""
        if self.leaving.is_set():
            raise KeyboardInterrupt


@contextmanager
def handled(handler: Callable[[int, Any], object], may_be_ignored: Sequence[int] = ENDS) -> Iterator[dict[int, Any]]:
    """Handles SIGINT and the signals of `ENDS` by one function within the block, and yields the earlier handlers.

    A signal of `may_be_ignored` that is ignored, such as SIGHUP by `nohup`, stays ignored. At the end the earlier
    handlers are back, whatever other code did to them. In another thread than the main one no signal is handled.
    """
    if threading.current_thread() is not threading.main_thread():
        yield {}
        return
    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDS)}
    try:
        for number, before in handlers.items():
            if before != signal.SIG_IGN or number not in may_be_ignored:
                signal.signal(number, handler)
        yield handlers
    finally:
        for number, before in handlers.items():
            signal.signal(number, before)


def _hear_again() -> None:
    """Puts Python's handlers back where other code took the signals that end a study, as Ray does from its thread.

    Ray's own handler of SIGTERM ends the process three seconds later.
    """
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, *ENDS):
            if (handler := signal.getsignal(number)) is not None:
                signal.signal(number, handler)


PATIENCE_S = 20.0
"""How long a driver may take to read a request. While runs train, it looks every second. Units: seconds."""
POLL_S = 0.2
REQUESTS = ("home", "address", "storage", "max_concurrent")
"""Options that a running driver can change, or that are the same for all commands about a study."""


class BeingRunError(LocusError):
    """The error of a study that another driver runs. `asked` holds the changes that this driver was asked for."""

    def __init__(self, message: str, asked: Control | None = None) -> None:
        super().__init__(message)
        self.asked = asked or Control()


def change(edition: Edition, home: Home, options: RunOptions) -> BeingRunError:
    """Asks the driver of a study for more seeds or trials, or for another number of concurrent runs.

    It returns the error that the caller raises, with a sentence on what the driver does now.
    """
    id, folder = edition.id, home.study(edition.id)
    uri = folder.storage_uri
    if options.storage not in (None, uri):
        has = f"with the storage {uri}" if uri else "without a storage"
        return BeingRunError(
            f"{id} is being run by another driver {has}; for --storage {options.storage}, stop it first "
            f"(locus stop {id}{home.option})"
        )
    arms = stored(home, id).study.plan.arms
    if added := [arm for arm in edition.study.plan.arms if arm not in arms]:
        return BeingRunError(
            f"{id} is being run by another driver without {listed(added)}; type this again once it has ended, "
            f"or stop it first (locus stop {id})"
        )

    history, plan = History.open(home, edition), edition.study.plan
    changes = Control(
        seeds=edition.study.seeds if edition.study.seeds > history.seeds else None,
        trials=plan.trials if plan.trials > history.trials_asked else None,
        max_concurrent=options.max_concurrent,
    )
    if changes.given():
        does = request(home, id, changes)
    else:
        defaults = dict(RunOptions())
        names = [name for name, value in options if value != defaults[name] and name not in REQUESTS]
        kept = listed([f"--{name.replace('_', '-')}" for name in names])
        does = f"does all of this{f', with its own {kept}' if names else ''}; see locus status"
    driver = folder.driver
    where = f" {driver}," if driver and driver.is_elsewhere() else ""
    return BeingRunError(f"{id} is being run by another driver,{where} which {does}", changes)


def request(home: Home, id: str, changes: Control) -> str:
    """Leaves a request for a driver, waits until the driver has read it, and returns in words what happened.

    Raises: LocusError if the study is not being run, or if its driver ended before it read the request.
    """
    folder = home.study(id)
    if not folder.driven:
        raise LocusError(f"{id} is not being run here; see locus status")
    ask_driver(folder, changes)

    def is_read() -> bool:
        unread = _read(folder.control)
        return unread is None or not {*changes.given()} & {*unread.given()}

    poll(lambda: is_read() or not folder.driven, POLL_S, PATIENCE_S)
    was_read = is_read()
    if not was_read and not folder.driven:
        folder.control.unlink(missing_ok=True)
        raise LocusError(f"{id} ended before its driver read this; type it again")
    if changes.stop:
        request_in_words = "to stop each run after its epoch" if changes.stop == "after the epoch" else "to stop now"
    else:
        counts = (("seed", changes.seeds), ("trial", changes.trials), ("concurrent run", changes.max_concurrent))
        request_in_words = "for " + " and ".join(plural(count, noun) for noun, count in counts if count is not None)
    if was_read:
        return f"was asked {request_in_words}"
    return (
        f"will be asked {request_in_words} as soon as it trains; if nothing is left to train (its probes or its report "
        "are made), type this again once it has ended"
    )
