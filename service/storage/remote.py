"""Copies a study's files to the storage, the URI of `--storage`, and back to a home, also while the study runs.

<uri>/outcomes/<key>/<code>.json, .<probe>.npz          answers, shared by all studies, as in a home
<uri>/outcomes/<key>/<code>.<digest>.pt                 weights, with their digest: if two homes train a run and
                                                        send it at the same time, there are two files
<uri>/studies/<id>/study.json
<uri>/studies/<id>/drivers/<number>.json                the driver that runs it (`leases.py`)
<uri>/studies/<id>/journal/<number>/<segment>.jsonl     the facts of one driver, in pieces
<uri>/studies/<id>/work/<key>/<code>/<attempt>/         the files of a run that is not finished

The thread of `StorageSync` sends no answers: the driver sends each one before it writes that the run has ended.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

from filelock import FileLock, Timeout

from search_spaces.words import plural
from service.storage import plain_json
from service.storage.facts import KEY, Ended
from service.storage.history import History
from service.storage.home import Home
from service.storage.journal import PATIENCE_S as LOCK_S
from service.storage.journal import Journal, read
from service.storage.leases import HeldError, Lease, held, newest
from service.storage.outcomes import ENDS, Answered, Outcomes
from trainables.remote_files import PATIENCE_S, RemoteFolder, StorageError
from trainables.spec import LocusError
from trainables.whole_files import put_aside, unsealed, write_whole

SEGMENT = 2**20
"""The bytes of a segment of a journal. The last segment is sent again each time, so it must be small."""
TRIES = 5
"""How many times a journal is read if it is removed while it is read."""
SENT = re.compile(r"\d+/\d+\.jsonl")
"""The pattern of a segment's name. Files that a cloud's client adds, such as `000000 (1).jsonl`, do not match it."""


def sent_journal(remote: RemoteFolder) -> bytes | None:
    """Returns the whole lines of the journal that was sent last; None if no journal was. Raises: StorageError."""
    for _ in range(TRIES):
        names = [name for name in remote.names() if SENT.fullmatch(name)]
        begun = [name for name in names if name.endswith("/000000.jsonl")]
        if not begun:
            return None
        number = max(begun).partition("/")[0]
        parts = [remote.read(name) for name in names if name.startswith(f"{number}/")]
        whole = b"".join(part for part in parts if part is not None)
        if None not in parts:  # else a driver that took over has removed this copy meanwhile, and sent its own
            return whole[: whole.rfind(b"\n") + 1]
    raise StorageError(f"{remote.uri} changed {TRIES} times while the journal was read; try again")


class JournalCopy:
    """Sends the new lines of a journal. `number` is the driver's number in its lease. Units: `segment` in bytes."""

    def __init__(self, journal: Path, remote: RemoteFolder, number: int, segment: int = SEGMENT) -> None:
        self._journal, self._remote, self._number, self._segment = journal, remote, number, segment
        self._sent = 0

    def send(self, patience: float) -> None:
        """Sends the segments that have changed, in their order. Units: `patience` in seconds. Raises: StorageError."""
        if not self._journal.exists():
            return
        with self._journal.open("rb") as file:
            first = self._sent // self._segment
            file.seek(first * self._segment)
            content = file.read()
        content = content[: content.rfind(b"\n") + 1]
        end = first * self._segment + len(content)
        if end <= self._sent:
            return
        remote = replace(self._remote, patience=patience)
        starts = range(0, len(content), self._segment)
        for start in starts if self._sent else reversed(starts):
            name = f"{self._number:06}/{first + start // self._segment:06}.jsonl"
            remote.write(name, content[start : start + self._segment])
        self._sent = end

    def remove_older(self) -> None:
        """Removes the copies of earlier drivers; call it once this one has sent all. Raises: StorageError."""
        for number in _numbers(self._remote):
            if number < self._number:
                self._remote.remove(f"{number:06}")


def _numbers(remote: RemoteFolder) -> set[int]:
    """Returns the numbers of the drivers that have sent copies of a journal; other folders are left out."""
    folders = {name.partition("/")[0] for name in remote.names()}
    return {int(number) for number in folders if number.isdecimal()}


ANSWER_FILE = re.compile(rf"{KEY}/\w[\w.-]*")
"""The pattern of a path of an answer's file in `outcomes`. Files of other names there are not locus's own."""


class OtherJournalError(LocusError):
    """The error for a home and a storage that hold different journals under one id."""


class Copies:
    """The copies of one edition of a study at a storage, in the folders `study`, `journal` and `outcomes`.

    `work` is the URI of the files of unfinished runs. `patience` is the time for which a storage that does not answer
    is asked again. A `key` below is a run's key, a `name` is `Answered.name`. Units: `patience` in seconds.
    """

    def __init__(self, uri: str, home: Home, id: str, patience: float = PATIENCE_S) -> None:
        self.uri, self.home, self.id = uri, home, id
        self.outcomes = RemoteFolder(uri, patience).inside("outcomes")
        self.study = RemoteFolder(uri, patience).inside(f"studies/{id}")
        self.journal, self.work = self.study.inside("journal"), self.study.inside("work").uri

    def keep(self, key: str, name: str) -> None:
        """Sends an answer, its weights first, so that no answer lacks its weights. Raises: StorageError.

        If the storage has the answer with all its weights, nothing is sent, for other homes use it; if weights are
        missing there, the answer is replaced. Damaged weights of the home are not sent.
        """
        outcomes, sent = Outcomes(self.home), self._sent_digests(key, name)
        if not outcomes.is_there(key, name) or sent:
            return
        sound = outcomes.has_sound_weights(key, name)
        if sent is not None and not sound:
            return
        for file, target in self._weights(key, name).items() if sound else ():
            self.outcomes.put(file, target)
        self.outcomes.put(outcomes.path(key, name), f"{key}/{name}.json")

    def _digests(self, key: str, name: str) -> dict[str, str] | None:
        """Returns the digests of an answer's weights in the home; None if the home lacks the answer."""
        path = Outcomes(self.home).path(key, name)
        return _digests_in(path.read_bytes()) if path.exists() else None

    def _weights(self, key: str, name: str) -> dict[Path, str]:
        """Returns, for each file of an answer's weights in the home, its path at the storage."""
        outcomes, digests = Outcomes(self.home), self._digests(key, name) or {}
        return {outcomes.weights(key, name, end): f"{key}/{_sent_as(name, end, digests[end])}" for end in digests}

    def _sent_digests(self, key: str, name: str) -> dict[str, str] | None:
        """Returns the digests of an answer's weights at the storage: {} if it lacks some, None without an answer."""
        digests = _digests_in(self.outcomes.read(f"{key}/{name}.json"))
        weights = [f"{key}/{_sent_as(name, end, digest)}" for end, digest in (digests or {}).items()]
        return digests if all(map(self.outcomes.has, weights)) else {}

    def has_other(self, key: str, name: str) -> bool:
        """Returns whether the storage has other weights of an answer than the home. Raises: StorageError."""
        mine = self._digests(key, name)
        return mine is not None and (self._sent_digests(key, name) or mine) != mine

    def keep_missing(self, answers: Iterable[tuple[str, str]]) -> None:
        """Sends the files of answers, given by key and name, and of their probes, that the storage lacks."""
        sent = set(self.outcomes.names())
        for key, name in answers:
            weights = {target for file, target in self._weights(key, name).items() if file.exists()}
            if not sent.issuperset({f"{key}/{name}.json", *weights}):
                self.keep(key, name)
            probes = {f"{key}/{file.name}": file for file in (self.home.outcomes / key).glob(f"{name}.*.npz")}
            if probes.keys() - sent and not self.has_other(key, name):
                for target in sorted(probes.keys() - sent):
                    self.outcomes.put(probes[target], target)

    def clear_work(self, answered: Iterable[tuple[str, str]]) -> None:
        """Removes the files of unfinished work of answered runs, given by key and code. Raises: StorageError."""
        work = self.study.inside("work")
        left = {tuple(name.split("/")[:2]) for name in work.names()}
        for key, code in left & set(answered):
            work.remove(f"{key}/{code}")

    def weights(self, key: str, name: str) -> str:
        """Returns the URI of an answer's weights, after sending them if the storage lacks them.

        Raises: LocusError if the storage has the weights of another training.
        """
        mine, sent = self._digests(key, name), self._sent_digests(key, name)
        if sent and sent != mine:
            raise LocusError(
                f"{self.outcomes.uri}/{key}/{name}.json must be {Outcomes(self.home).path(key, name)}, got the answer "
                "of another training; run the study again, and the answer at the storage counts"
            )
        if not sent:
            self.keep(key, name)
        return f"{self.outcomes.uri}/{key}/{_sent_as(name, ENDS[0], (mine or {}).get(ENDS[0], ''))}"

    def fetch(self) -> int:
        """Copies to the home the files that only the storage has: the study, its journal and its answers.

        It returns how many files it copied.
        Raises: OtherJournalError if both have a journal and neither continues the other; HeldError if a driver of this
        machine has the study; StorageError.
        """
        folder, count = self.home.study(self.id), 0
        folder.root.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            try:
                stack.enter_context(FileLock(folder.lock, timeout=LOCK_S))
            except Timeout:
                raise held(folder.drivers, newest(folder.drivers)) from None
            sent = sent_journal(self.journal)
            if sent is None:
                return 0
            here = folder.journal.read_bytes() if folder.journal.exists() else b""
            whole = here[: here.rfind(b"\n") + 1]
            if not (sent.startswith(whole) or whole.startswith(sent)):
                raise OtherJournalError(
                    f"{self.id} has another journal at {self.uri} than in {folder.root}: each was continued without "
                    f"the other; move {folder.root} to another place to go on from the copies (answers in the home "
                    "still count)"
                )
            definition = self.study.read("study.json")
            if definition is not None and not folder.study.exists():
                write_whole(folder.study, definition)
                count += 1
            if len(sent) > len(whole):
                if here:
                    put_aside(folder.journal)
                write_whole(folder.journal, sent)
                count += 1
            answers = {(fact.run, fact.code) for fact in read(folder.journal)[0] if isinstance(fact, Ended)}
            return count + self._bring(name for name in self.outcomes.names() if _answer_of(name) in answers)

    def fetch_answers_of(self, key: str) -> int:
        """Copies to the home a run's answers that it lacks. Returns how many files. Raises: StorageError."""
        return self._bring(self.outcomes.names(key))

    def _bring(self, names: Iterable[str]) -> int:
        """Copies to the home the named files of answers that it lacks. Returns how many files.

        Nothing is copied beside the answer of another training. A copied answer replaces weights and findings of probes
        that the home has without an answer.
        """
        answers: dict[tuple[str, str], set[str]] = {}
        for name in filter(ANSWER_FILE.fullmatch, names):
            answers.setdefault(_answer_of(name), set()).add(name.partition("/")[2])
        with ThreadPoolExecutor(8) as threads:
            return sum(threads.map(self._bring_answer, answers, answers.values()))

    def _bring_answer(self, answer: tuple[str, str], sent: set[str]) -> int:
        """Copies to the home those files of one answer, of the names `sent`, that it lacks. Returns how many."""
        (key, name), file, folder = answer, f"{answer[1]}.json", self.home.outcomes / answer[0]
        comes = file in sent and not (folder / file).exists()
        content = self.outcomes.read(f"{key}/{file}") if comes else None
        digests = self._digests(key, name) if content is None else _digests_in(content)
        if digests is None:  # damaged, or gone since
            return 0
        # by the name of a file at home: its names at the storage, the second one being of an earlier locus
        sources = {f"{name}{end}": [_sent_as(name, end, digests[end]), f"{name}{end}"] for end in digests}
        sources |= {probe: [probe] for probe in sent if probe.endswith(".npz")}
        missing = [target for target in sources if comes or not (folder / target).exists()]
        if not comes and (not missing or self.has_other(key, name)):
            return 0
        count = sum(
            any(self.outcomes.get(f"{key}/{source}", folder / target) for source in sources[target])
            for target in missing
        )
        if content is not None:  # last, so that no answer is without its weights
            write_whole(folder / file, content)
        return count + comes


class SentOutcomes(Outcomes):
    """The answers of a home with copies at a storage.

    `replaced` receives the key of each answer that was replaced by that of the storage.
    """

    def __init__(self, copies: Copies, replaced: list[str]) -> None:
        super().__init__(copies.home)
        self._copies, self._replaced = copies, replaced

    def put(self, answered: Answered, weights: Path | None) -> None:
        super().put(answered, weights)
        self._copies.keep(answered.run.key, answered.name)

    def has_sound_weights(self, key: str, name: str) -> bool:
        """Returns what `Outcomes.has_sound_weights` does, but False if the storage has those of another training."""
        return super().has_sound_weights(key, name) and not self._copies.has_other(key, name)

    def usable(self, key: str, code: str, *, whole: bool) -> Answered | None:
        """Returns what `Outcomes.usable` does, but looks in the storage, too: another home may have sent the answer.

        If weights are needed, and the storage has those of another training, its answer replaces the home's, because
        other homes start runs from it.
        """
        if whole and self._copies.has_other(key, code):
            with suppress(FileNotFoundError):  # another driver of this home has just done it
                self.set_aside(key, code, answer=True)
            self._copies.fetch_answers_of(key)
            self._replaced.append(key)
        answer = super().usable(key, code, whole=whole)
        if answer is None and self._copies.fetch_answers_of(key):
            answer = super().usable(key, code, whole=whole)
        return answer

    def source(self, key: str, name: str) -> str:
        return self._copies.weights(key, name)


def fetch(uri: str, home: Home, name: str) -> str:
    """Copies to the home the editions of a name or id that a storage has, unless they run here.

    It returns a sentence about what it copied; empty if it copied nothing.
    """
    folder = RemoteFolder(uri)
    folder.check()
    counts: dict[str, int] = {}
    for id in folder.inside("studies").folders():
        if name in (id, id.partition("@")[0]) and not home.study(id).driven:
            with suppress(HeldError):  # by a driver that began a moment ago
                counts[id] = Copies(uri, home, id).fetch()
    fetched = [f"{plural(count, 'file')} of {id}" for id, count in counts.items() if count]
    return f"fetched {' and '.join(fetched)} from {uri}" if fetched else ""


def _digests_in(answer: bytes | None) -> dict[str, str] | None:
    """Returns the digests of weights in the content of an answer's file; None without content, or if it is damaged."""
    content = None if answer is None else unsealed(answer)
    return None if content is None else dict(plain_json(content).get("weights", {}))


def _answer_of(name: str) -> tuple[str, str]:
    """Returns the key and the name of the answer that a file in `outcomes` belongs to."""
    key, _, file = name.partition("/")
    return key, file.partition(".")[0].removesuffix("_ema")


def _sent_as(name: str, end: str, digest: str) -> str:
    """Returns the name of a file of weights at the storage."""
    return f"{name}.{digest[:16]}{end}"


SEND_S = 5.0
"""The seconds from one sending of new facts to the next. A lost disk costs the facts of this time, but no answer."""
CLOSE_S = 60.0
"""The seconds that the end of a study waits for a storage that does not answer."""


class StorageSync:
    """Sends the copies of one study while it runs: call `open`, then `close`. If `copies` is None, it does nothing.

    It takes the lease before the journal is opened, so that a refused command writes nothing. From then on one thread
    gives signs of life, also while files are copied for minutes.
    """

    def __init__(self, copies: Copies | None) -> None:
        self._copies = copies
        self._end, self._busy = threading.Event(), threading.Lock()
        self._journal: Journal | None = None
        self._copy: JournalCopy | None = None

    def __enter__(self) -> StorageSync:
        """Takes the lease, and fetches the files sent before. Raises: HeldError, OtherJournalError, StorageError."""
        if self._copies is not None:
            self._lease = Lease(self._copies.id, self._copies.study.inside("drivers"))
            self._lease.begin(above=max(_numbers(self._copies.journal), default=0))
            self._thread = threading.Thread(target=self._live, name="storage", daemon=True)
            self._thread.start()
            try:
                self._copies.fetch()
            except BaseException:
                self.__exit__()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the lease, unless the thread hangs: the next driver then sees no sign of life."""
        if self._copies is not None:
            self._end.set()
            self._thread.join(CLOSE_S)
            if not self._thread.is_alive():
                self._lease.end()

    def open(self, journal: Journal) -> None:
        """Sends the study and its journal, and lets the thread send new facts from then on. Raises: StorageError."""
        if self._copies is None:
            return
        self._copies.home.study(self._copies.id).storage.write_text(self._copies.uri, encoding="utf-8")
        self._copies.study.put(self._copies.home.study(self._copies.id).study, "study.json")
        copy = JournalCopy(journal.path, self._copies.journal, self._lease.number)
        copy.send(CLOSE_S)
        copy.remove_older()
        self._journal, self._copy = journal, copy

    def close(self, history: History) -> str | None:
        """Sends the files that the storage lacks, and removes unfinished work that no run needs any more.

        It returns a warning if the storage lacks something; else None.
        """
        if self._copies is None or self._copy is None:
            return None
        if not self._busy.acquire(timeout=CLOSE_S):  # for a thread that stands still nobody waits longer
            return f"the storage lacks a part ({self._copies.uri} stands still); run the study again to send the rest"
        copy, self._copy = self._copy, None
        self._busy.release()
        answers = {(run, code) for (run, code), state in history.states.items() if state.answered}
        copies = Copies(self._copies.uri, self._copies.home, self._copies.id, CLOSE_S)
        try:
            copy.send(CLOSE_S)  # first: whoever takes the study over goes on from it
            copies.keep_missing(sorted(answers))
            copies.clear_work(answers)
        except StorageError as error:
            return f"the storage lacks a part ({error}); run the study again to send the rest"
        return None

    def _live(self) -> None:
        """Gives a sign of life and sends new facts every few seconds, in the thread, until the study ends."""
        while not self._end.wait(SEND_S):
            # of a storage that is away, or a disk: what is new is sent the next time
            with self._busy, suppress(OSError, ValueError):
                why = self._lease.beat()
                if why and self._journal:
                    self._journal.session.lose(why)
                    return
                if not why and self._copy:
                    self._copy.send(0.0)
