"""The demo's gate profile: green results are kept, anything else opens nothing, and no process outlives the demo."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import psutil
import pytest
from dpone_demo import gate_profile
from dpone_demo.gate_profile import GateProfile
from dpone_embedded import StackError
from dpone_embedded.statedir import StateDir

#: Stands in for dev/profiles/component_profile.py: it gets the same options, and does what a test says.
RUNNER = """
import pathlib, sys, time
options = dict(zip(sys.argv[1:], sys.argv[2:]))
new, known = pathlib.Path(options["--output-dir"]), pathlib.Path(options["--unless"])
assert options["--profile"] == "gate" and "--working-tree" in sys.argv
{does}
"""
WRITES = 'new.mkdir()\n(new / "summary.json").write_text("new")'


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    made = StateDir(tmp_path / "state")
    made.create()
    return made


def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: StateDir, does: str) -> GateProfile:
    profiles = tmp_path / "checkout" / "dev" / "profiles"
    profiles.mkdir(parents=True, exist_ok=True)
    (profiles / "component_profile.py").write_text(RUNNER.format(does=does))
    monkeypatch.setattr(gate_profile, "ROOT", tmp_path / "checkout")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return GateProfile(state)


def test_green_results_are_kept_in_the_state_folder_and_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: StateDir
) -> None:
    with running(tmp_path, monkeypatch, state, WRITES) as profile:
        folder = profile.folder()
    assert (folder / "summary.json").read_text() == "new"
    with running(tmp_path, monkeypatch, state, "assert known.exists()") as profile:
        assert profile.folder() == folder
    assert (folder / "summary.json").read_text() == "new"
    assert list(tmp_path.glob("dpone-gate-*")) == []


def test_a_profile_that_is_not_green_opens_nothing_and_its_log_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: StateDir
) -> None:
    does = f"{WRITES}\nprint('missing: a-case')\nsys.exit(1)"
    with (
        running(tmp_path, monkeypatch, state, does) as profile,
        pytest.raises(StackError, match="No activation is opened") as refused,
    ):
        profile.folder()
    assert "missing: a-case" in str(refused.value)
    (log,) = tmp_path.glob("dpone-gate-*/log")
    assert str(log) in str(refused.value)
    assert not (state.path / "gate-profile").exists()


def test_what_still_runs_at_the_end_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: StateDir
) -> None:
    with running(tmp_path, monkeypatch, state, "time.sleep(600)") as profile:
        assert profile._child is not None
        pid = profile._child.pid
        assert psutil.pid_exists(pid)
        began = time.monotonic()
    assert not psutil.pid_exists(pid)
    assert time.monotonic() - began < 25
    assert list(tmp_path.glob("dpone-gate-*")) == []
