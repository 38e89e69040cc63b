"""A folder of one process alone, for what gets its name only when it is whole; and the end of those that died.

A process that is killed takes nothing away. The next one does: a folder whose lock nobody holds is nobody's any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = ".building-"
_LOCK = "lock"


@contextmanager
def staging_folder(parent: Path) -> Iterator[Path]:
    """A new folder in `parent`, taken away at the end with what is still in it. Those of dead processes go as well."""
    _clear(parent)
    folder, lock = _made(parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _made(parent: Path) -> tuple[Path, int]:
    """A folder and the lock of it. One that another process takes for a dead one's before it is locked is made again."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        lock = _locked(folder)
        if lock is not None:
            return folder, lock


def _clear(parent: Path) -> None:
    for left in parent.glob(f"{_PREFIX}*"):
        # Another user's, or one that ends at this moment: it is left to its owner.
        with contextlib.suppress(OSError):
            lock = _locked(left)
            if lock is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(lock)


def _locked(folder: Path) -> int | None:
    """The lock of a folder that is still there; None when somebody has it."""
    path = folder / _LOCK
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.stat(path), os.fstat(descriptor)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None
