"""Claims of runs: one driver holds each, and a killed process lets go."""

import subprocess
import sys
import threading

from service.execution.other_drivers import InFlight
from service.storage.home import Home

HOLDER = """
import sys
from pathlib import Path
from service.execution.other_drivers import InFlight
from service.storage.home import Home

held = InFlight(Home(Path(sys.argv[1])))
print(held.claim("run", "code"), flush=True)
sys.stdin.read()
"""


def test_one_driver_holds_a_run(tmp_path) -> None:
    one, other = InFlight(Home(tmp_path)), InFlight(Home(tmp_path))
    assert one.claim("run", "code")
    assert not other.claim("run", "code")
    assert other.keys == {"run"}
    assert "run" not in other
    assert other.claim("run", "another code"), "another code gives another answer"
    assert other.claim("another run", "code")


def test_what_was_given_back_can_be_claimed(tmp_path) -> None:
    one, other = InFlight(Home(tmp_path)), InFlight(Home(tmp_path))
    assert one.claim("run", "code")
    assert not other.claim("run", "code")
    other.look()
    assert other.keys == {"run"}
    one.end("run")
    other.look()
    assert other.keys == set()
    assert other.claim("run", "code")
    other.close()
    assert one.claim("run", "code")
    one.close()
    assert not list((tmp_path / "outcomes" / ".claims").iterdir()), "no file stays for a run that nobody trains"


def test_a_run_that_one_thread_has_claimed_is_given_back_by_another(tmp_path) -> None:
    """Runs are claimed in the thread in which Ray works."""
    one, other = InFlight(Home(tmp_path)), InFlight(Home(tmp_path))
    thread = threading.Thread(target=one.claim, args=("run", "code"))
    thread.start()
    thread.join()
    assert not other.claim("run", "code")
    one.close()
    assert other.claim("run", "code")


def test_a_killed_process_holds_nothing(tmp_path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path], **pipes) as holder:
        assert holder.stdout.readline() == "True\n"
        mine = InFlight(Home(tmp_path))
        assert not mine.claim("run", "code")
        holder.kill()
        holder.wait()
        mine.look()
        assert mine.claim("run", "code")
