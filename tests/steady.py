"""All fast tests, again and again, beside four busy loops: what fails here is a test that flakes.

`python -m tests.steady [TIMES]`; five times without a number.
"""

from __future__ import annotations

import subprocess
import sys
import time

LOOPS = 4


def main(times: int) -> int:
    """Runs the tests; 0 if they passed each time."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(LOOPS)]
    passed = 0
    try:
        for number in range(1, times + 1):
            begin = time.monotonic()
            done = subprocess.run(["make", "fast"], check=False)
            passed += done.returncode == 0
            minutes = (time.monotonic() - begin) / 60
            print(f"steady: try {number} of {times}, {passed} passed, {minutes:.1f} minutes", flush=True)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    return int(passed < times)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
