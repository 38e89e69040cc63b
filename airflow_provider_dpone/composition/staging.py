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

_PREFIX = ".dpone-building-"
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
        lock = _locked(folder, os.O_CREAT)
        if lock is not None:
            return folder, lock


def _clear(parent: Path) -> None:
    for left in parent.glob(f"{_PREFIX}*"):
        # Another user's, one that ends at this moment, or none of ours: it is left to its owner.
        with contextlib.suppress(OSError):
            lock = _locked(left)
            if lock is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(lock)


def _locked(folder: Path, create: int = 0) -> int | None:
    """The lock of a folder that is still there; None when somebody has it.

    Whoever died between the two leaves an empty folder without a lock, which goes here.
    """
    try:
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        descriptor = os.open(_LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | create, 0o600, dir_fd=place)
    except FileNotFoundError:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return None
    else:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.stat(_LOCK, dir_fd=place, follow_symlinks=False), os.fstat(descriptor)):
                return descriptor
        except (BlockingIOError, FileNotFoundError):
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None
    finally:
        os.close(place)
