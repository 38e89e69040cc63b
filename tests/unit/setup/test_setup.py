"""dev/setup with doubles of Python and its installer: what it does around them when they are stopped or fail."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

# A double of a Python that makes environments of doubles. Its installer leaves half of a package while `slow` is there.
PYTHON = """#!/bin/sh
case "$*" in
*"-m venv"*) mkdir -p .venv/bin && cp "$0" .venv/bin/python && cp "$0" .venv/bin/uv ;;
*--version*) echo "Python 3.11" ;;
*requirements.lock*)
    echo half > .venv/package
    if [ -e slow ]; then touch began; exec sleep 60; fi
    if [ -e offline ]; then exit 1; fi
    echo whole > .venv/package ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "dev/demo").mkdir(parents=True)
    for name in ("dev/setup", "dev/bootstrap.lock", "requirements.lock", "pyproject.toml", "dev/demo/pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    return tmp_path


def start(checkout: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["dev/setup"],
        cwd=checkout,
        env=os.environ | {"PYTHON": str(checkout / "python")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        # A shell that runs the tests in the background lets them ignore the interrupt, and a shell cannot take that back.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def run(checkout: Path) -> tuple[int, str]:
    process = start(checkout)
    said, _ = process.communicate(timeout=60)
    return process.returncode, said


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_installation_that_was_stopped_is_begun_again_from_nothing(checkout: Path, how: signal.Signals) -> None:
    (checkout / "slow").touch()
    process = start(checkout)
    deadline = time.monotonic() + 60
    while not (checkout / "began").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, how)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == (130 if how == signal.SIGINT else -signal.SIGKILL)
    assert "network" not in said
    (checkout / "slow").unlink()
    code, said = run(checkout)
    assert code == 0
    assert "starting again" in said
    assert (checkout / ".venv/package").read_text() == "whole\n"
    assert run(checkout) == (0, "")


def test_a_failed_installation_names_the_network_and_is_begun_again(checkout: Path) -> None:
    (checkout / "offline").touch()
    code, said = run(checkout)
    assert code == 1
    assert "network" in said
    (checkout / "offline").unlink()
    assert run(checkout)[0] == 0
    assert (checkout / ".venv/package").read_text() == "whole\n"


def test_two_at_once_wait_for_each_other(checkout: Path) -> None:
    first, second = start(checkout), start(checkout)
    said = first.communicate(timeout=60)[0] + second.communicate(timeout=60)[0]
    assert (first.returncode, second.returncode) == (0, 0)
    assert said.count("installing the pinned packages") == 1
