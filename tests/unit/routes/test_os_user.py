"""The OS user of the dbt child: refused by name before anything is admitted, and really another one when it runs.

As root everything is done with a real other user. Otherwise there is one thing to see: the named refusal.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.drivers.mssql import MsSqlDsn
from airflow_provider_dpone.gates.interface import Credential
from airflow_provider_dpone.routes import dbt_process, dbt_workspace, os_user
from airflow_provider_dpone.routes.dbt_process import DbtInvocation, DbtProcess
from airflow_provider_dpone.routes.dbt_workspace import Workspace
from airflow_provider_dpone.routes.os_user import OsUser
from tests.support.other_user import CAN_SWITCH, interpreter_for, open_folder, provider_is_open, run_as, unused_user

ATTEMPT = "sha256:" + "cd" * 32
SECRET = "Aa9-a secret that no other user may read"
LOG = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def user() -> OsUser:
    return unused_user()


@pytest.fixture(scope="module")
def interpreter(user: OsUser) -> Iterator[str]:
    """One that the other user can start; without the right to become it, the question does not arise."""
    with open_folder() as folder, pytest.MonkeyPatch.context() as patch:
        yield interpreter_for(user, folder, patch) if CAN_SWITCH else sys.executable


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as made:
        yield made


def refusal(call: Callable[[], Any]) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as refused:
        call()
    assert "nothing was admitted" in refused.value.not_done
    assert refused.value.check
    return refused.value


def test_names_and_numbers(user: OsUser) -> None:
    assert os_user.resolve(user.named) == user
    nobody = os_user.resolve("nobody")
    assert nobody.uid != 0 and nobody.gid != 0
    assert os_user.resolve(f"nobody:{user.gid}").gid == user.gid


@pytest.mark.parametrize(
    ("named", "reason"),
    [
        ("no-such-user-here", "dbt_user_unknown"),
        ("nobody:no-such-group", "dbt_user_unknown"),
        ("", "dbt_user_unknown"),
        ("nobody:", "dbt_user_unknown"),
        ("\x00", "dbt_user_unknown"),
        (f"{2**32 - 1}:1", "dbt_user_unknown"),
        ("0:1", "dbt_user_root"),
        ("1:0", "dbt_user_root"),
        ("root", "dbt_user_root"),
        (str(unused_user().uid), "dbt_user_group"),
    ],
)
def test_who_is_refused(named: str, reason: str) -> None:
    assert refusal(lambda: os_user.resolve(named)).reason == reason


def test_this_processes_own_user_is_no_other(monkeypatch: pytest.MonkeyPatch, user: OsUser) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user.uid)
    assert refusal(lambda: os_user.resolve(user.named)).reason == "dbt_user_same"


def usable(user: OsUser, folder: Path, *files: Path) -> None:
    os_user.require_usable(user, folder, files, dict(os.environ))


def test_a_process_without_the_right_says_which_is_missing(user: OsUser, interpreter: str, folder: Path) -> None:
    """Real: as root, a process that has already become somebody else asks."""
    if CAN_SWITCH:
        ask = (
            "import sys; from pathlib import Path; from airflow_provider_dpone.routes import os_user\n"
            "os_user.require_usable(os_user.resolve('nobody'), Path('/'), [], {})"
        )
        # A copy of the package: the other user starts an interpreter of its own, and may not read this checkout.
        package = Path(os_user.__file__).parents[1]
        shutil.copytree(package, folder / package.name, ignore=shutil.ignore_patterns("__pycache__"))
        here = str(folder)
        said = run_as(user, interpreter, "-I", "-c", f"import sys; sys.path.insert(0, {here!r}); {ask}").stderr
    else:
        said = str(refusal(lambda: usable(user, folder)))
    assert "dbt_user_switch" in said
    assert "CAP_SETUID" in said
    assert "run the worker as root" in said


@pytest.mark.parametrize("trouble", ["none", "interpreter", "provider", "work root"])
def test_what_the_other_user_cannot_reach_is_named(
    user: OsUser, interpreter: str, folder: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    monkeypatch.setattr(sys, "executable", interpreter)
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    inside = closed / "file"
    inside.write_bytes(b"")
    inside.chmod(0o755)
    work_root, file = folder / "work", dbt_process.CHILD
    if trouble == "interpreter":
        monkeypatch.setattr(sys, "executable", str(inside))
    elif trouble == "provider":
        file = inside
    elif trouble == "work root":
        work_root = closed / "work"
    if not CAN_SWITCH:
        assert refusal(lambda: usable(user, work_root, file)).reason == "dbt_user_switch"
    elif not provider_is_open(user):
        assert refusal(lambda: usable(user, work_root, file)).reason == "dbt_user_reach"
    elif trouble == "none":
        usable(user, work_root, file)
    else:
        refused = refusal(lambda: usable(user, work_root, file))
        assert refused.reason == "dbt_user_reach"
        assert str(work_root if trouble == "work root" else inside) in refused.happened


#: Stands in dbt's place: looks at everything that it should not see, and leaves traps for whoever collects.
HOSTILE = """
import json, os, signal, subprocess, sys
descriptor, parent, _, *arguments = sys.argv[1:]
secret = open(int(descriptor)).read()
closed, attempts = os.environ["PATH"].split(":")[-2:]
def tried(what, call):
    try:
        call()
        return f"{what}: done"
    except OSError as err:
        return f"{what}: {type(err).__name__}"
said = {
    "ids": [os.getresuid(), os.getresgid(), os.getgroups()],
    "own group": os.getpgid(0) == os.getpid(),
    "descriptors": sorted(int(n) for n in os.listdir("/proc/self/fd"))[:-1],
    "secret": secret[:3],
    "environment": sorted(os.environ),
    "tries": [
        tried("environ", lambda: open(f"/proc/{parent}/environ").read()),
        tried("memory", lambda: open(f"/proc/{parent}/mem", "rb").read(1)),
        tried("descriptors", lambda: os.listdir(f"/proc/{parent}/fd")),
        tried("passwords", lambda: open(closed + "/secrets.json").read()),
        tried("passwords through a link", lambda: open("target/run_results.json").read()),
        tried("attempts", lambda: os.listdir(attempts)),
        tried("artifacts", lambda: os.listdir("../artifacts")),
        tried("beside", lambda: open("../beside", "w")),
        tried("signal", lambda: os.kill(int(parent), signal.SIGTERM)),
        tried("root", lambda: os.setuid(0)),
        tried("groups", lambda: os.setgroups([0])),
        tried("own folder", lambda: open("target/mine", "w")),
        tried("project", lambda: open("project/models/a.sql").read()),
    ],
}
"""
LINKED = "os.symlink(closed + '/secrets.json', 'target/run_results.json'); os.mkfifo('logs/dbt.log')\n"
TELL = "print(json.dumps(said), flush=True)\n"
STAY = "subprocess.Popen(['sleep', '300']); print('staying', flush=True); signal.pause()\n"


@dataclass(kw_only=True)
class Started:
    process: DbtProcess
    workspace: Workspace

    def lines(self) -> list[str]:
        said: list[str] = []

        class Keep(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                said.append(record.getMessage().removeprefix("dbt: "))

        logger = logging.Logger("dbt")
        logger.addHandler(Keep())
        self.process.wait(logger)
        return said


def start(folder: Path, user: OsUser | None, program: str, monkeypatch: pytest.MonkeyPatch) -> Started:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    (closed / "secrets.json").write_text(SECRET)
    (folder / "project" / "models").mkdir(parents=True)
    (folder / "project" / "models" / "a.sql").write_text("select 1")
    child = folder / "child.py"
    child.write_text(program)
    monkeypatch.setattr(dbt_process, "CHILD", child)
    attempts = folder / "attempts"
    attempts.mkdir(mode=0o711)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{closed}:{attempts}")
    monkeypatch.setenv("DPONE_PASSWORD", SECRET)
    workspace = dbt_workspace.make(attempts, ATTEMPT, folder / "project")
    invocation = DbtInvocation(
        workspace=workspace,
        nonce="n",
        profile="shop",
        target=MsSqlDsn(host="h", database="d", user="u", password=Secret("unused")),
        schema="s",
        threads=1,
        user=user,
    )
    return Started(process=DbtProcess(invocation, Credential(username="l", secret=Secret(SECRET))), workspace=workspace)


def test_the_child_sees_nothing_of_the_worker(
    user: OsUser, interpreter: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", interpreter)
    program = HOSTILE.replace("said = {", LINKED + "said = {") + TELL
    if not CAN_SWITCH:
        with pytest.raises(PermissionError):
            start(folder, user, program, monkeypatch)
        return
    started = start(folder, user, program, monkeypatch)
    (line,) = started.lines()
    said = json.loads(line)
    assert said["ids"] == [[user.uid] * 3, [user.gid] * 3, []]
    assert said["own group"]
    assert said["descriptors"] == [0, 1, 2]
    assert said["secret"] == SECRET[:3]
    assert "DPONE_PASSWORD" not in said["environment"]
    assert said["tries"] == [
        "environ: PermissionError",
        "memory: PermissionError",
        "descriptors: PermissionError",
        "passwords: PermissionError",
        "passwords through a link: PermissionError",
        "attempts: PermissionError",
        "artifacts: FileNotFoundError",
        "beside: PermissionError",
        "signal: PermissionError",
        "root: PermissionError",
        "groups: PermissionError",
        "own folder: done",
        "project: done",
    ]
    # And what it left is no way to the passwords either.
    refused = started.workspace.collect()
    assert refused == ["target/run_results.json: a link, not a plain file", "logs/dbt.log: a pipe, not a plain file"]
    collected = [path for path in started.workspace.artifacts.rglob("*") if path.is_file()]
    assert [path.name for path in collected] == ["mine"]
    assert started.workspace.artifacts.stat().st_mode & 0o777 == 0o700
    assert not started.workspace.child.exists()


def test_the_whole_group_of_the_other_user_is_killed(
    user: OsUser, interpreter: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", interpreter)
    other = user if CAN_SWITCH else None
    started = start(folder, other, HOSTILE + STAY, monkeypatch)
    # What the worker has: the group of the child, by the number of its first process.
    group = started.process._process.pid
    until(lambda: len(members(group)) == 2)
    assert {process.uids().real for process in members(group)} == {other.uid if other else os.getuid()}
    started.process.kill()
    until(lambda: members(group) == [])


def test_an_interrupted_child_of_another_user_ends(
    user: OsUser, interpreter: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", interpreter)
    started = start(folder, user if CAN_SWITCH else None, HOSTILE + STAY, monkeypatch)
    until(lambda: len(members(started.process._process.pid)) == 2)
    started.process.interrupt()
    assert started.process.wait(LOG) != 0


@pytest.mark.parametrize("how", ["in the group", "gone its own way"])
def test_what_the_child_leaves_behind_keeps_nobody_waiting(
    user: OsUser, interpreter: str, folder: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """A process that holds dbt's output open: one of the group is killed, one that left it is not waited for."""
    monkeypatch.setattr(sys, "executable", interpreter)
    own_way = how == "gone its own way"
    leave = f"left = subprocess.Popen(['sleep', '60'], start_new_session={own_way})\nprint(left.pid, flush=True)\n"
    started = start(folder, user if CAN_SWITCH else None, HOSTILE + leave, monkeypatch)
    began = time.monotonic()
    (line,) = started.lines()
    assert time.monotonic() - began < 30
    left = psutil.Process(int(line)) if psutil.pid_exists(int(line)) else None
    if own_way:
        assert left is not None
        left.kill()
    else:
        until(lambda: left is None or not left.is_running() or left.status() == psutil.STATUS_ZOMBIE)


def members(group: int) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue
    return found


def until(true: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)


def test_the_probe_never_answers(user: OsUser, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*args: Any, **kwargs: Any) -> subprocess.CompletedProcess[str]:
        raise subprocess.TimeoutExpired("python", 1)

    monkeypatch.setattr(subprocess, "run", late)
    reason = "dbt_user_probe" if CAN_SWITCH else "dbt_user_switch"
    assert refusal(lambda: usable(user, folder)).reason == reason
