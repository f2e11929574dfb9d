"""Are the tests able to fail? A machine makes mistakes in the source, one at a time, and the fast tests must see them.

    mutants.py record TESTS                     which test executes which lines: all fast tests, once
    mutants.py judge TESTS RESULTS [MINUTES]    what the tests say of 300 mistakes; `make mutants` does both
    mutants.py compare A B                      two such RESULTS

It copies the folder in which it is called. TESTS and RESULTS are files of JSON lines; what was stopped goes on with
them. Lines of code are drawn in an order that follows from their text, so two versions of the code share most mistakes.
A mistake goes into the copy, and a forked process runs the nearest tests that execute its line; if none does, it is
missed. `judge` exits with 1 where less than BAR is caught.
"""

import ast
import builtins
import contextlib
import ctypes
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import zlib
from collections import Counter, defaultdict, namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path

BAR, COUNT, SEED = 0.82, 300, 61
MOST_TESTS, MOST_SECONDS = 40, 40  # of one mistake
PACKAGES = ("service", "trainables", "search_spaces")
MESSAGES = {"warn", "warning", "print", "echo", "log", "info", "debug", "error", "exception"}
OTHERS = (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn)
OTHERS += (ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.And, ast.Or)
OTHER = {ast.FloorDiv: ast.Mult} | dict(OTHERS) | {second: first for first, second in OTHERS}
HEAVY = """torch torchvision timm ray.tune ray.train mlflow optuna pandas scipy.stats matplotlib.pyplot sklearn typer
rich jinja2 jaxtyping hypothesis.extra.numpy pytest xdist pytest_timeout pytest_rerunfailures moto boto3 s3fs"""
OPTIONS = ("-q", "-n0", "-p", "no:cacheprovider", "--tb=line")
Mutant = namedtuple("Mutant", "name file line statement top kind start end old new")  # offsets in bytes


def changes(node: ast.AST, top: bool) -> Iterator[tuple[str, ast.AST, str]]:
    """What can be wrong with a node: the kind, what is replaced, and by which text."""
    match node:
        case ast.Compare(left=left, ops=[first, *ops], comparators=others):
            yield "comparison", node, ast.unparse(ast.Compare(left, [OTHER[type(first)](), *ops], others))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OTHER and not is_text(left) | is_text(right):
            yield "arithmetic", node, ast.unparse(ast.BinOp(left, OTHER[type(op)](), right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield "arithmetic", node, ast.unparse(operand)
        case ast.BoolOp(op=op, values=values):
            yield "and/or", node, ast.unparse(ast.BoolOp(OTHER[type(op)](), values))
        case ast.Constant(value=bool() as value):
            yield "constant", node, str(not value)
        case ast.Constant(value=int() | float() as value):
            yield from (("constant", node, str(value + step)) for step in (1, -1))
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.comprehension(ifs=[test, *_]):
            yield "condition negated", test, f"not ({ast.unparse(test)})"
        case ast.Return(value=ast.BinOp(left=first) | ast.BoolOp(values=[first, *_])):
            yield "returned value", node.value, ast.unparse(first)
        case ast.Return(value=ast.AST() as value) if getattr(value, "value", value) is not None:
            yield "returned value", value, "None"
        case ast.Expr(value=ast.Call()) | ast.Assign() | ast.AugAssign() if not top:
            yield "statement dropped", node, "pass"
        case ast.Call(func=func, args=args) if not any(isinstance(arg, ast.Starred) for arg in args):
            for i in range(1, len(args)):
                swapped = [*args[: i - 1], args[i], args[i - 1], *args[i + 1 :]]
                yield "arguments swapped", node, ast.unparse(ast.Call(func, swapped, node.keywords))


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or isinstance(getattr(node, "value", None), str)


def found(node: ast.AST, statement: int = 0, top: bool = True) -> Iterator[tuple[int, bool, str, ast.AST, str]]:
    """All changes in a tree, each with the line of its statement; none in annotations, messages and `__repr__`."""
    function = getattr(node.value if isinstance(node, ast.Expr) else node, "func", None)
    message = getattr(function, "attr", getattr(function, "id", "")) in MESSAGES
    typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    other = isinstance(node, ast.Import | ast.ImportFrom | ast.Raise | ast.JoinedStr)
    if message or typing or other or getattr(node, "name", "") == "__repr__":
        return
    statement = node.lineno if isinstance(node, ast.stmt) else statement
    yield from ((statement, top, *change) for change in changes(node, top))
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "msg"):
            inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and name == "body"
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from found(child, statement, top and not inside)


def drawn() -> list[Mutant]:
    """A mistake for each line that can have one, in an order that follows from the texts of the lines."""
    order, count = {}, Counter()
    for file in first_marks():
        lines = Path(file).read_bytes().splitlines(keepends=True)
        of_line = defaultdict(list)
        for change in found(ast.parse(b"".join(lines))):
            of_line[change[3].lineno].append(change)
        for number, choices in sorted(of_line.items()):
            text = lines[number - 1].decode().strip()
            count[text] += 1  # the same text elsewhere is another line
            digest = hashlib.sha256(f"{SEED} {count[text]} {text}".encode()).hexdigest()
            draw = random.Random(digest)
            kind = draw.choice(sorted({choice[2] for choice in choices}))
            statement, top, _, node, new = draw.choice([choice for choice in choices if choice[2] == kind])
            start = len(b"".join(lines[: number - 1])) + node.col_offset
            end = len(b"".join(lines[: node.end_lineno - 1])) + node.end_col_offset
            name, old = f"{count[text]} {text} | {kind} | {new}", b"".join(lines)[start:end].decode()
            order[digest] = Mutant(name, file, number, statement, top, kind, start, end, old, new)
    return [order[digest] for digest in sorted(order)]


def mutated(source: bytes, mutant: Mutant) -> bytes:
    """The source with the mistake, whose other lines keep their numbers."""
    blank = "\n" * mutant.old.count("\n")
    new = f"pass{blank}" if mutant.new == "pass" else f"({mutant.new}{blank})"
    return source[: mutant.start] + new.encode() + source[mutant.end :]


def first_marks() -> dict[str, int]:
    """Where the lines of each file begin in `__marks__`."""
    files = sorted(str(path) for package in PACKAGES for path in Path(package).rglob("*.py"))
    lengths = [Path(file).read_bytes().count(b"\n") + 2 for file in files]
    return {file: sum(lengths[:i]) for i, file in enumerate(files)}


def marked(text: bytes, first: int) -> str:
    """The source with a mark before each statement: `__marks__` knows which were executed."""
    tree = ast.parse(text)
    for block in [getattr(node, name, 0) for node in ast.walk(tree) for name in ("body", "orelse", "finalbody")]:
        for i, one in reversed([*enumerate(block if isinstance(block, list) else ())]):
            docstring = isinstance(one, ast.Expr) and is_text(one.value)
            if not docstring and getattr(one, "module", "") != "__future__":
                block.insert(i, ast.parse(f"__marks__[{first + one.lineno}] = 1").body[0])
    return ast.unparse(tree)


@contextlib.contextmanager
def copied() -> Iterator[None]:
    """Within the block this process, and what it starts, works in a copy of the folder."""
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        ignored = shutil.ignore_patterns(".venv", ".git", ".*_cache", ".hypothesis", "__pycache__")
        shutil.copytree(".", folder, symlinks=True, ignore=ignored, dirs_exist_ok=True)
        with contextlib.chdir(folder):
            sys.path[0] = os.environ["PYTHONPATH"] = folder
            os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
            yield


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def append(path: Path, **line: object) -> None:
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


class Recorder:
    """Writes a line for each test: its seconds, whether it passed, and the statements that it executed."""

    def __init__(self, path: Path, marks: bytearray, chosen: Callable[[list[str]], list[str]]) -> None:
        self.path, self.marks, self.chosen, self.passed, self.begun = path, marks, chosen, True, time.monotonic()

    def pytest_collection_modifyitems(self, items: list) -> None:
        by_name = {item.nodeid: item for item in items}
        items[:] = [by_name[name] for name in self.chosen([*by_name])]
        self.pytest_runtest_logfinish("")  # what is executed until here is executed at import

    def pytest_runtest_logstart(self) -> None:
        self.passed, self.begun, self.marks[:] = True, time.monotonic(), bytes(len(self.marks))

    def pytest_runtest_logreport(self, report: object) -> None:
        if report.failed:
            self.passed = False
            self.pytest_runtest_logfinish(report.nodeid)  # which is not called where a part of a test fails under -x

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        seconds, marks = time.monotonic() - self.begun, zlib.compress(bytes(self.marks)).hex()
        append(self.path, test=nodeid, seconds=seconds, passed=self.passed, marks=marks)


def record(results: str) -> None:
    """Runs all fast tests with marks; processes that they start write marks, too."""
    path = Path(results).resolve()
    done = {line["test"] for line in read(path)}
    with copied():
        for file, first in first_marks().items():
            Path(file).write_text(marked(Path(file).read_bytes(), first))
        Path("marks").write_bytes(bytes(100_000))
        start = (
            f"with open('{os.getcwd()}/marks', 'r+b') as file:\n    builtins.__marks__ = mmap.mmap(file.fileno(), 0)"
        )
        Path("sitecustomize.py").write_text(f"import builtins, mmap\n{start}\n")
        importlib.import_module("sitecustomize")
        recorder = Recorder(path, builtins.__marks__, lambda names: [name for name in names if name not in done])
        importlib.import_module("pytest").main([*OPTIONS, "tests"], [recorder])


def tests_of(mutants: list[Mutant], lines: list[dict]) -> list[dict[str, float]]:
    """The tests of each mistake and their seconds: those that execute its line, the nearest and fastest first.

    What is executed at import is seen by any test of the file; then come other tests of the same files of tests.
    """
    firsts, imported = first_marks(), b""
    ends = dict(zip(firsts, [*firsts.values(), None][1:], strict=True))
    far = [{} for _ in mutants]
    for line in lines:
        marks = zlib.decompress(bytes.fromhex(line.pop("marks")))
        imported = imported or marks
        for mutant, tests in zip(mutants, far, strict=True):
            first, at = firsts[mutant.file], firsts[mutant.file] + mutant.statement
            if marks[at] or ((mutant.top or imported[at]) and any(marks[first : ends[mutant.file]])):
                tests[line["test"]] = not marks[at]
    seconds = {line["test"]: line["seconds"] for line in lines if line["passed"] and line["test"]}
    return [nearest(mutant, tests, seconds) for mutant, tests in zip(mutants, far, strict=True)]


def nearest(mutant: Mutant, far: dict[str, int], seconds: dict[str, float]) -> dict[str, float]:
    room, name = (Path("tests/rooms") / mutant.file).parent, f"test_{Path(mutant.file).name}"
    paths = {test: Path(test.split("::")[0]) for test in sorted(seconds, key=seconds.get)}
    files = {path for test, path in paths.items() if test in far}
    if "" in far and not files:  # executed at import alone, as values are
        files = {path for path in paths.values() if path.parent in (room, room.parent)}
    turns, keys, tests = Counter(), {}, {}
    for test, path in paths.items():
        if path in files:
            turns[function := (far.get(test, 2), test.split("[")[0])] += 1
            keys[test] = far.get(test, 2), turns[function], path.name != name, path.parent != room
    for test in sorted(keys, key=keys.get)[:MOST_TESTS]:
        if not tests or seconds[test] + sum(tests.values()) <= MOST_SECONDS:
            tests[test] = seconds[test]
    return tests


def failures(tests: list[str], limit_s: float, *words: str) -> list[str]:
    """The tests that fail in a forked process, or how else it ended; nothing of it is left behind."""
    folder = Path(tempfile.mkdtemp(prefix="mut-"))
    if (child := os.fork()) == 0:
        try:
            for number in (0, 1, 2):
                os.dup2(os.open(os.devnull, os.O_RDWR), number)
            os.environ["TMPDIR"], tempfile.tempdir = str(folder), None
            recorder = Recorder(folder / "tests", bytearray(), lambda names: [name for name in tests if name in names])
            files = list(dict.fromkeys(test.split("::")[0] for test in tests))
            os._exit(importlib.import_module("pytest").main([*OPTIONS, *words, *files], [recorder]))
        finally:
            os._exit(70)
    code, begun = None, time.monotonic()
    while code is None and time.monotonic() < begun + limit_s:
        time.sleep(0.05)
        ended, status = os.waitpid(child, os.WNOHANG)
        code = os.waitstatus_to_exitcode(status) if ended else None
    while left := Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
        os.kill(int(left[0]), signal.SIGKILL)
        os.waitpid(int(left[0]), 0)
    failed = list(dict.fromkeys(line["test"] for line in read(folder / "tests") if not line["passed"]))
    shutil.rmtree(folder, ignore_errors=True)
    other = "a hang" if code is None else f"an end with {code}"
    return failed or ([] if code in (0, 5) else [other])  # 5: a changed list of parameters, and no test is left


def caught(mutant: Mutant, tests: list[str], limit_s: float, number: int = 0) -> str:
    """The test that fails with a mistake in this folder, or how else the tests ended; empty if all passed."""
    file, source = Path(mutant.file), Path(mutant.file).read_bytes()
    file.write_bytes(mutated(source, mutant))
    os.utime(file, (number, number))  # Python compiles a file again if its time, in seconds, differs
    try:
        return [*failures(tests, limit_s, "-x"), ""][0]
    finally:
        file.write_bytes(source)


def judge(path: str, results: str, minutes: str = "60") -> bool:
    """Plants what is not judged yet, runs the tests that caught something without a mistake, and prints the table."""
    end, mutants, into = time.monotonic() + 60 * float(minutes), drawn()[:COUNT], Path(results).resolve()
    tests = tests_of(mutants, read(Path(path)))
    ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: what tests leave behind is found, and ended
    for module in HEAVY.split():
        importlib.import_module(module)
    done = {line["name"] for line in read(into)}
    with copied():
        for i, mutant in enumerate(mutants):
            if mutant.name not in done and (start := time.monotonic()) < end:
                limit_s = 120 + 5 * sum(tests[i].values())
                by = caught(mutant, [*tests[i]], limit_s, i) if tests[i] else ""
                seconds = time.monotonic() - start
                append(into, **mutant._asdict(), caught=bool(by), by=by, tests=len(tests[i]), seconds=seconds)
        lines = read(into)
        wrong = failures(sorted({line["by"] for line in lines if line["by"].startswith("tests/")}), 1200)
    for line in lines:
        line["caught"] &= line["by"] not in wrong
    print(*shares(lines), *(f"fails without a mistake, too: {test}" for test in wrong), sep="\n")
    for line in lines:
        verdict = f"caught by {line['by']}" if line["caught"] else "MISSED" if line["tests"] else "MISSED, not executed"
        change = f"{line['kind']}: {line['old'][:60]} -> {line['new'][:60]} | {verdict}"
        print(f"{line['file']}:{line['line']}", *change.split())
    return sum(line["caught"] for line in lines) < BAR * len(lines)


def shares(lines: list[dict]) -> Iterator[str]:
    """How much is caught, by package."""
    for package in ("", *PACKAGES):
        some = [line for line in lines if line["file"].startswith(package)]
        caught, never = sum(line["caught"] for line in some), sum(not line["tests"] for line in some)
        share = f"{caught / max(1, len(some)):.1%}"
        yield f"{package or 'all':14}{share:>6}: {caught} of {len(some)}; {never} in lines that no test executes"


def compare(before: str, after: str) -> None:
    """Prints both shares, and the mistakes of both that were caught before and are missed now, or the other way."""
    old, new = ({line["name"]: line for line in read(Path(path))} for path in (before, after))
    print(*shares([*old.values()]), *shares([*new.values()]), sep="\n")
    both = [(old[name], new[name]) for name in old if name in new]
    print(f"{len(both)} mistakes are in both; caught: {[sum(pair[i]['caught'] for pair in both) for i in (0, 1)]}")
    for was, now in both:
        if was["caught"] != now["caught"]:
            word = f"lost, was caught by {was['by']}" if was["caught"] else f"won by {now['by']}"
            print(f"{now['file']}:{now['line']} {now['name']}: {word}")


if __name__ == "__main__":
    sys.exit({"record": record, "judge": judge, "compare": compare}[sys.argv[1]](*sys.argv[2:]))
