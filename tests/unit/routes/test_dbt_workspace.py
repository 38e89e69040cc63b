"""What is taken back from the child's folder: plain files of bounded size; everything else is refused by name."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.routes import dbt_workspace
from airflow_provider_dpone.routes.dbt_workspace import Workspace

ATTEMPT = "sha256:" + "ab" * 32


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    project = tmp_path / "prøject"
    (project / "models").mkdir(parents=True)
    (project / "models" / "a.sql").write_text("select 1")
    made = dbt_workspace.make(tmp_path / "work", ATTEMPT, project)
    made.hand_over(None)
    return made


def test_the_child_gets_a_copy_of_the_project_and_nobody_else_a_look(workspace: Workspace) -> None:
    assert (workspace.project / "models" / "a.sql").read_text() == "select 1"
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (workspace.root, workspace.child)] == [0o700, 0o700]


def test_artifacts_are_collected_and_the_childs_folder_is_removed(workspace: Workspace) -> None:
    (workspace.target / "run").mkdir()
    (workspace.target / "run" / "a.sql").write_bytes(b"select 1")
    (workspace.logs / "dbt.log").write_bytes(b"done")
    (workspace.child / "elsewhere").write_bytes(b"not an artifact")
    assert workspace.collect() == []
    found = sorted(p.relative_to(workspace.artifacts).as_posix() for p in workspace.artifacts.rglob("*") if p.is_file())
    assert found == ["logs/dbt.log", "target/run/a.sql"]
    assert not workspace.child.exists()


def test_nothing_that_is_not_a_plain_file_is_opened(workspace: Workspace, tmp_path: Path) -> None:
    secret = tmp_path / "secrets.json"
    secret.write_text("hunter2")
    target = workspace.target
    (target / "run_results.json").symlink_to(secret)
    (target / "folder").symlink_to(tmp_path)
    os.link(secret, target / "hard.json")
    os.mkfifo(target / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        # Not by its whole path: that may be too long for a socket.
        here = os.getcwd()
        os.chdir(target)
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
    refused = workspace.collect()
    assert sorted(refused) == [
        "target/folder: a link, not a plain file",
        "target/hard.json: a file that has another name elsewhere",
        "target/pipe: a pipe, not a plain file",
        "target/run_results.json: a link, not a plain file",
        "target/socket: a socket, not a plain file",
    ]
    assert list((workspace.artifacts / "target").iterdir()) == []
    assert secret.read_text() == "hunter2"


def test_a_device_is_refused(workspace: Workspace) -> None:
    if os.geteuid() == 0:
        os.mknod(workspace.target / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        assert workspace.collect() == ["target/null: a device, not a plain file"]
    else:
        with pytest.raises(PermissionError):
            os.mknod(workspace.target / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))


def test_the_whole_target_may_not_be_a_link(workspace: Workspace, tmp_path: Path) -> None:
    workspace.target.rmdir()
    workspace.target.symlink_to(tmp_path)
    assert workspace.collect() == ["target: a link, not a plain file"]


def test_files_are_bounded_one_by_one_and_together(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dbt_workspace, "FILE_BYTES", 100)
    monkeypatch.setattr(dbt_workspace, "TOTAL_BYTES", 150)
    for name, size in (("a", 100), ("b", 101), ("c", 51), ("d", 50)):
        (workspace.target / name).write_bytes(b"x" * size)
    refused = workspace.collect()
    assert refused == [
        "target/b: 101 bytes, more than 100",
        "target/c: more than 150 bytes in all",
    ]
    assert sorted(path.name for path in (workspace.artifacts / "target").iterdir()) == ["a", "d"]


def test_a_sparse_file_of_a_terabyte_takes_no_room(workspace: Workspace) -> None:
    with open(workspace.logs / "dbt.log", "wb") as log:
        log.truncate(2**40)
    assert workspace.collect() == [f"logs/dbt.log: {2**40} bytes, more than {dbt_workspace.FILE_BYTES}"]


def test_a_file_that_grows_while_it_is_read_is_refused(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dbt_workspace, "FILE_BYTES", 100)
    path = workspace.logs / "dbt.log"
    path.write_bytes(b"x" * 60)
    read = os.read

    def growing(handle: int, size: int) -> bytes:
        with open(path, "ab") as log:
            log.write(b"x" * 60)
        return read(handle, size)

    monkeypatch.setattr(os, "read", growing)
    assert workspace.collect() == ["logs/dbt.log: it grew while it was read"]
    assert list((workspace.artifacts / "logs").iterdir()) == []


def test_folders_are_followed_to_a_depth(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dbt_workspace, "DEPTH", 2)
    (workspace.target / "1" / "2" / "3").mkdir(parents=True)
    assert workspace.collect() == ["target/1/2: more than 2 folders below each other"]


def test_entries_are_bounded_of_whatever_kind_they_are(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty folders and links cost the worker's disk and log as files do."""
    monkeypatch.setattr(dbt_workspace, "ENTRIES", 12)
    monkeypatch.setattr(dbt_workspace, "NAMED", 3)
    for number in range(30):
        (workspace.target / str(number)).symlink_to("nowhere")
    refused = workspace.collect()
    # One of the twelve is the folder itself; the last refusal says that there are more entries.
    assert len(refused) == 4 and refused[-1] == f"and {11 + 1 - 3} more"
    assert not workspace.child.exists()


def test_empty_folders_are_entries(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dbt_workspace, "ENTRIES", 5)
    for number in range(10):
        (workspace.target / str(number)).mkdir()
    (workspace.logs / "dbt.log").write_text("too late")
    refused = workspace.collect()
    assert [line.split(":")[0] for line in refused] == ["target", "logs"]
    assert len(list((workspace.artifacts / "target").iterdir())) == 4


def test_the_first_entry_too_many_is_named(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dbt_workspace, "ENTRIES", 3)
    for name in ("a", "b", "c"):
        (workspace.target / name).write_text(name)
    assert workspace.collect() == ["target: more than 3 entries in all; the rest was not looked at"]


def test_a_name_is_printed_so_that_it_ends_no_line_of_the_log(workspace: Workspace) -> None:
    for name in (b"a\nINFO recorded", b"\xff", "\x1b[2Jж".encode()):
        os.mkfifo(os.fsencode(workspace.target) + b"/" + name)
    refused = [line.removesuffix(": a pipe, not a plain file") for line in workspace.collect()]
    assert refused == ["target/\\x1b[2Jж", "target/a\\nINFO recorded", "target/\\udcff"]


def test_folders_too_deep_to_remove_are_named(workspace: Workspace) -> None:
    handle = os.open(workspace.target, os.O_RDONLY)
    for _ in range(sys.getrecursionlimit()):
        os.mkdir("d", dir_fd=handle)
        inner = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)
    refused = workspace.collect()
    assert refused[0].endswith(f"/d: more than {dbt_workspace.DEPTH} folders below each other")
    # Python 3.13 and later removes them, older ones say that they cannot.
    assert workspace.child.exists() == (len(refused) == 2)
    subprocess.run(["rm", "-rf", workspace.child], check=True)


def test_a_folder_that_the_child_took_away_is_named(workspace: Workspace) -> None:
    shutil.rmtree(workspace.child)
    assert [line.rsplit(": ", 1)[1] for line in workspace.collect()] == ["No such file or directory"] * 2


def test_an_attempt_has_a_folder_of_its_own(workspace: Workspace, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="exists already"):
        dbt_workspace.make(tmp_path / "work", ATTEMPT, tmp_path / "prøject")


def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_issued(tmp_path: Path) -> None:
    (tmp_path / "work").write_text("a file")
    with pytest.raises(ConfigurationError, match="attempt_folder"):
        dbt_workspace.make(tmp_path / "work", ATTEMPT, tmp_path)
