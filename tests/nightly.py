"""Everything that is checked, part by part; a part that fails ends none of the others. Prints one table at the end.

`python -m tests.nightly [PART ...]`; logs lie in the folder that it names first. Random examples are new each night:
the seed stands in the command that is printed.
"""

from __future__ import annotations

import re
import secrets
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

SEED = secrets.randbelow(2**32)
PARTS = {
    "lint": "make lint",
    "types": "make types",
    "random": f"make fast WITH='--hypothesis-profile nightly --hypothesis-seed {SEED}'",
    "processors": "make processors",
    "slow": "make slow",
    "studies": "make studies",
    "faults": "make faults",
    "browser": "make browser",
    "e2e": "make e2e",
}


@dataclass(frozen=True)
class Part:
    """What came of a part. Units: seconds."""

    name: str
    code: int
    seconds: float
    log: Path

    @property
    def counts(self) -> str:
        """pytest's last line of counts: `12 passed, 1 rerun`."""
        found = re.findall(r"(\d+ (?:passed|failed|error|skipped|rerun)\w*)", self.log.read_text().rpartition("\n=")[2])
        return ", ".join(found)

    @property
    def reruns(self) -> list[str]:
        """The tests that failed once."""
        return re.findall(r"^RERUN (\S+)", self.log.read_text(), re.MULTILINE)


def run(name: str, folder: Path) -> Part:
    """Runs a part to its end; what it prints goes to its log."""
    log = folder / f"{name}.log"
    print(f"{name}: {PARTS[name]}  (log: {log})", flush=True)
    begin = time.monotonic()
    with log.open("w") as file:
        done = subprocess.run(PARTS[name], shell=True, stdout=file, stderr=subprocess.STDOUT, check=False)
    return Part(name, done.returncode, time.monotonic() - begin, log)


def main(names: list[str]) -> int:
    """Runs the parts; 0 if all passed."""
    if unknown := [name for name in names if name not in PARTS]:
        print(f"a part must be one of {', '.join(PARTS)}, got {', '.join(unknown)}")
        return 2
    folder = Path(tempfile.mkdtemp(prefix="locus-nightly-"))
    parts = [run(name, folder) for name in names or PARTS]
    print(f"\n{'part':<12}{'result':<9}{'minutes':>8}  counts")
    for part in parts:
        print(f"{part.name:<12}{'failed' if part.code else 'passed':<9}{part.seconds / 60:>8.1f}  {part.counts}")
    for test in [test for part in parts for test in part.reruns]:
        print(f"passed at the second try, or failed twice: {test}")
    return int(any(part.code for part in parts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
