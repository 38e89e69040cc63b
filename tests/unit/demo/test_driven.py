"""Two demos of one checkout: the second touches nothing of the first, also where it would begin anew."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from dpone_embedded import Stack, StackError
from dpone_embedded.statedir import StateDir

HOLD = """
import sys, time
from pathlib import Path
from dpone_embedded.statedir import StateDir
with StateDir(Path(sys.argv[1])).driven():
    print("driving", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("further", [[], ["--fresh"], ["--keep"]])
def test_a_second_run_touches_nothing(tmp_path: Path, further: list[str]) -> None:
    state = StateDir(tmp_path / "state")
    with state.driven():
        state.create()
        state.write("stack.json", {"phase": "ready", "services": {}})
        before = sorted(tmp_path.rglob("*"))
        command = [sys.executable, "-m", "dpone_demo", "run", "--state-dir", str(state.path), *further]
        finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert finished.returncode == 1
        assert "Another run drives the stack" in finished.stderr
        assert finished.stdout == ""
        assert sorted(tmp_path.rglob("*")) == before


def test_a_driver_that_dies_gives_the_stack_back_and_an_empty_start_does_not(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "driving\n"
        Stack(path).erase()
        with pytest.raises(StackError, match="Another run"), StateDir(path).driven():
            pytest.fail("two drivers")
        holder.kill()
    with StateDir(path).driven():
        assert path.is_dir()


def test_an_error_of_the_driver_stays_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError, match="mine"), StateDir(tmp_path / "state").driven():
        raise BlockingIOError("mine")
