"""The stack's promises to the person at the terminal: nothing left behind, and one clear message for each mishap.

They are kept by the supervisor, whichever services it runs, so these tests run the one that starts fastest.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from dpone_embedded import Stack, StackError, preflight
from dpone_embedded.children import MARK
from dpone_embedded.statedir import StateDir, default_path

ONLY = ("postgres",)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "state dir é"
    yield path
    Stack(path).stop()


def eventually(condition: Callable[[], bool], seconds: float = 15) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def left_behind(folder: Path) -> list[str]:
    """Processes that work in the folder or carry its mark."""
    found = []
    for process in psutil.process_iter():
        try:
            inside = Path(process.cwd()).is_relative_to(folder)
            if inside or process.environ().get(MARK) == str(folder):
                found.append(f"{process.pid} {' '.join(process.cmdline())[:80]}")
        except (psutil.Error, OSError):
            continue
    return found


def answers(stack: Stack) -> bool:
    address = stack.addresses.postgres
    assert address is not None
    with psycopg.connect(
        host=address.host, port=address.port, user=address.user, password=address.password, dbname="flights_ops"
    ) as connection:
        return connection.execute("SELECT 1").fetchone() == (1,)


def owner(folder: Path, then: str) -> subprocess.Popen[str]:
    """Another process that starts the stack, says so, and does what the test says."""
    code = (
        "import os, signal, sys, time\n"
        "from dpone_embedded import Stack\n"
        f"stack = Stack({str(folder)!r}, services={ONLY!r})\n"
        "stack.start()\n"
        f"{then}\n"
        "print('up', flush=True)\n"
        "time.sleep(600)\n"
    )
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def supervisor(folder: Path) -> psutil.Process:
    return psutil.Process(json.loads((folder / "stack.json").read_text())["pid"])


def test_start_and_stop(folder: Path) -> None:
    stack = Stack(folder, services=ONLY)
    stack.start()
    assert answers(stack)
    assert stack.status()["phase"] == "ready"
    stack.stop()
    assert stack.status()["phase"] == "stopped"
    assert left_behind(folder) == []
    assert not stack.state.locked()


def test_data_and_passwords_of_databases_survive_a_restart(folder: Path) -> None:
    passwords = []
    for _ in range(2):
        with Stack(folder, services=ONLY) as stack:
            passwords.append(stack.state.secret("postgres_airflow"))
    assert passwords[0] == passwords[1]


def test_a_password_is_readable_by_its_owner_only(folder: Path) -> None:
    with Stack(folder, services=ONLY):
        for name in ("secrets.json", "stack.json"):
            assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600


def test_no_password_on_a_command_line_or_in_an_environment(folder: Path) -> None:
    with Stack(folder, services=ONLY) as stack:
        secrets = [*json.loads((folder / "secrets.json").read_text()).values()]
        assert stack.addresses.postgres is not None
        secrets.append(stack.addresses.postgres.password)
        parent = supervisor(folder)
        for process in [parent, *parent.children(recursive=True)]:
            seen = " ".join(process.cmdline()) + " ".join(f"{k}={v}" for k, v in process.environ().items())
            assert not [secret for secret in secrets if secret in seen]


def test_a_second_start_is_refused_and_harms_nothing(folder: Path) -> None:
    with Stack(folder, services=ONLY) as stack:
        with pytest.raises(StackError, match="already running"):
            Stack(folder, services=ONLY).start()
        assert answers(stack)


def test_it_ends_with_its_owner(folder: Path) -> None:
    process = owner(folder, "")
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    process.kill()
    process.wait()
    assert eventually(lambda: left_behind(folder) == []), left_behind(folder)
    assert not StateDir(folder).locked()


def test_it_outlives_an_owner_that_detached(folder: Path) -> None:
    process = owner(folder, "stack.detach()")
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    process.kill()
    process.wait()
    time.sleep(0.5)
    assert answers(Stack(folder))
    Stack(folder).stop()
    assert left_behind(folder) == []


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_at_any_moment_leaves_nothing(folder: Path, delay: float, number: int) -> None:
    command = [sys.executable, "-m", "dpone_embedded", "run", "--state-dir", str(folder), "--services", *ONLY]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert eventually(lambda: (folder / "logs").exists())
    time.sleep(delay)
    process.send_signal(number)
    assert process.wait(30) == 130
    assert process.stderr is not None and "interrupted" in process.stderr.read()
    assert eventually(lambda: left_behind(folder) == []), left_behind(folder)
    assert not StateDir(folder).locked()


def test_a_start_after_kill_9_of_everything(folder: Path) -> None:
    process = owner(folder, "")
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    parent = supervisor(folder)
    for each in [parent, *parent.children(recursive=True)]:
        each.kill()
    process.kill()
    process.wait()
    with Stack(folder, services=ONLY) as stack:
        assert answers(stack)


def test_a_start_after_kill_9_of_the_supervisor_alone(folder: Path) -> None:
    process = owner(folder, "stack.detach()")
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    supervisor(folder).kill()
    process.kill()
    process.wait()
    assert eventually(lambda: Stack(folder).status()["phase"] == "stopped")
    with Stack(folder, services=ONLY) as stack:
        assert answers(stack)
    assert left_behind(folder) == []


def test_a_service_that_dies_ends_the_stack_and_says_so(folder: Path) -> None:
    stack = Stack(folder, services=ONLY)
    stack.start()
    for child in supervisor(folder).children():
        if "postgres" in child.name():
            child.kill()
    assert eventually(lambda: stack.status()["phase"] == "failed")
    assert "PostgreSQL is no longer running" in stack.status()["error"]
    stack.stop()
    assert left_behind(folder) == []


def test_a_taken_port_is_one_clear_message(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port: Any = taken.getsockname()[1]
        with pytest.raises(StackError, match=f"Port {port} .*cannot be used.*Nothing was started") as refused:
            Stack(folder, services=("postgres", "airflow"), airflow_port=port).start()
    assert "Traceback" not in str(refused.value)
    assert left_behind(folder) == []


def test_a_missing_system_library_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_LIBRARIES", {"libnowhere.so.9": "libnowhere9"})
    with pytest.raises(StackError, match=r"libnowhere\.so\.9 \(Debian: .*apt-get install libnowhere9\)"):
        preflight.require_machine(ONLY)


def test_everything_missing_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_LIBRARIES", {"libnowhere.so.9": "libnowhere9"})
    monkeypatch.setattr(preflight, "_PACKAGES", {"postgres": ("no-such-distribution",)})
    with pytest.raises(StackError, match=r"(?s)libnowhere9.*no-such-distribution"):
        preflight.require_machine(ONLY)


def test_an_unknown_service_is_refused(folder: Path) -> None:
    with pytest.raises(StackError, match="mysql"):
        Stack(folder, services=("mysql",))


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StackError, match=r"cannot be used.*Nothing was started"):
        Stack(tmp_path / "file" / "state", services=ONLY).start()


def test_the_default_folder_has_a_short_plain_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPONE_STATE_DIR", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    one, other = default_path(Path("/a b/é")), default_path(Path("/a b/è"))
    assert one != other
    assert " " not in str(one) and str(one).isascii()
    monkeypatch.setenv("DPONE_STATE_DIR", "/somewhere/else")
    assert default_path(Path("/a")) == Path("/somewhere/else")
    assert os.fspath(default_path(Path("/a"))) == "/somewhere/else"
