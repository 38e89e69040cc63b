"""The folders of one dbt attempt: what the child gets, and what is taken back from it.

    work_root/<attempt>/dbt/         the child's: project (a copy), profiles.yml, target, logs; its own user's, if it has one
    work_root/<attempt>/artifacts/   the worker's: what was collected when dbt had ended

The child's folder is hostile input then: a link could name a file of the worker's, a pipe could hang it, a huge file
could fill its disk. Nothing is followed, only plain files up to a size are taken, and what is refused is named.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.routes.os_user import OsUser

#: Bounds of what is collected: bytes of one file and of all files, entries of whatever kind that are looked at, folders
#: below each other; and how many refusals are named.
FILE_BYTES = 256 * 1024 * 1024
TOTAL_BYTES = 1024 * 1024 * 1024
ENTRIES = 50_000
DEPTH = 32
NAMED = 100

_CHUNK = 1024 * 1024
_COLLECTED = ("target", "logs")


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folders of one attempt. `child` is where dbt works; `artifacts` is what people and this process read."""

    root: Path

    @property
    def child(self) -> Path:
        return self.root / "dbt"

    @property
    def project(self) -> Path:
        return self.child / "project"

    @property
    def target(self) -> Path:
        return self.child / "target"

    @property
    def logs(self) -> Path:
        return self.child / "logs"

    @property
    def profiles(self) -> Path:
        return self.child / "profiles.yml"

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    def hand_over(self, user: OsUser | None) -> None:
        """Give the child's folder to its user. The attempt's own folder lets that user pass and shows it nothing."""
        for folder in (self.target, self.logs):
            folder.mkdir()
        if user is None:
            return
        for path, _, names in os.walk(self.child):
            for name in names:
                user.own(Path(path) / name)
            user.own(Path(path))
            Path(path).chmod(0o700)
        self.root.chmod(0o711)

    def collect(self) -> list[str]:
        """Copy the artifacts out of the child's folder and remove it. Returns what was refused, and why."""
        refused: list[str] = []
        self.artifacts.mkdir(mode=0o700)
        room = _Room()
        try:
            with _opened(self.child) as child:
                for name in _COLLECTED:
                    _collect(child, name, self.artifacts, room, refused, name, DEPTH)
        except OSError as err:
            refused.append(f"{self.child}: {err.strerror}")
        if (more := len(refused) - NAMED) > 0:
            refused[NAMED:] = [f"and {more} more"]
        try:
            shutil.rmtree(self.child)
        except (OSError, RecursionError) as err:
            why = (err.strerror or err) if isinstance(err, OSError) else "its folders are too deep below each other"
            refused.append(f"{self.child} could not be removed: {why}")
        return refused


def make(root: Path, attempt_sha256: str, project: Path) -> Workspace:
    """A new folder of its own for each attempt, readable by nobody else, with a copy of the project."""
    folder = root / attempt_sha256.removeprefix("sha256:")
    try:
        root.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
    except FileExistsError as err:
        raise ConfigurationError(
            "attempt_folder", happened=f"{folder} exists already, although every attempt has a folder of its own."
        ) from err
    except OSError as err:
        raise _unusable(err) from err
    workspace = Workspace(folder)
    try:
        workspace.child.mkdir(mode=0o700)
        shutil.copytree(project, workspace.project, symlinks=True, copy_function=shutil.copyfile)
    except (OSError, shutil.Error) as err:
        raise _unusable(err) from err
    return workspace


def _unusable(err: Exception) -> ConfigurationError:
    return ConfigurationError(
        "attempt_folder",
        happened=f"the attempt's folder could not be made: {err}.",
        not_done="no credential was issued and dbt was not started.",
        check="that the worker may write there and that the disk is not full.",
    )


class _Room:
    """How much may still be taken."""

    def __init__(self) -> None:
        self.bytes = TOTAL_BYTES
        self.entries = ENTRIES


def _collect(parent: int, name: str, into: Path, room: _Room, refused: list[str], shown: str, depth: int) -> None:
    """Copy one entry of an open folder, and what is below it. `shown` is its path as it can be printed."""
    room.entries -= 1
    try:
        seen = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if reason := _reason(seen, room, depth):
            refused.append(f"{shown}: {reason}")
            return
        with _opened(name, parent) as handle:
            if not os.path.samestat(seen, os.fstat(handle)):
                refused.append(f"{shown}: it was replaced while it was looked at")
            elif stat.S_ISDIR(seen.st_mode):
                (into / name).mkdir(mode=0o700)
                for entry in _entries(handle, room, refused, shown):
                    _collect(handle, entry, into / name, room, refused, f"{shown}/{_printable(entry)}", depth - 1)
            elif not _copy(handle, into / name, room):
                refused.append(f"{shown}: it grew while it was read")
    except FileNotFoundError:
        return
    except OSError as err:
        refused.append(f"{shown}: {err.strerror}")


def _entries(handle: int, room: _Room, refused: list[str], shown: str) -> Iterator[str]:
    """The names in a folder, as many as there is room for."""
    with os.scandir(handle) as found:
        names = sorted(entry.name for entry in islice(found, max(room.entries, 0) + 1))
    for name in names:
        if room.entries <= 0:
            refused.append(f"{shown}: more than {ENTRIES} entries in all; the rest was not looked at")
            return
        yield name


def _printable(name: str) -> str:
    """A name that can end no line of a log and steer no terminal; bytes that are no UTF-8 stand escaped."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in name)


def _reason(seen: os.stat_result, room: _Room, depth: int) -> str:
    if stat.S_ISDIR(seen.st_mode):
        return "" if depth else f"more than {DEPTH} folders below each other"
    if not stat.S_ISREG(seen.st_mode):
        return f"{_NAMED.get(stat.S_IFMT(seen.st_mode), 'something')}, not a plain file"
    if seen.st_nlink != 1:
        return "a file that has another name elsewhere"
    if seen.st_size > FILE_BYTES:
        return f"{seen.st_size} bytes, more than {FILE_BYTES}"
    if seen.st_size > room.bytes:
        return f"more than {TOTAL_BYTES} bytes in all"
    return ""


_NAMED = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def _copy(handle: int, path: Path, room: _Room) -> bool:
    """Whether the file ended within its bounds; a part of one that did not is removed."""
    left = min(FILE_BYTES, room.bytes)
    with open(path, "xb") as out:
        while chunk := os.read(handle, _CHUNK):
            left -= len(chunk)
            if left < 0:
                break
            out.write(chunk)
            room.bytes -= len(chunk)
    if left < 0:
        path.unlink()
    return left >= 0


@contextmanager
def _opened(name: str | Path, parent: int | None = None) -> Iterator[int]:
    handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
    try:
        yield handle
    finally:
        os.close(handle)
