"""Files of a release as bytes: plain ones of a bounded size and number, or a refusal that names the file.

Nothing here follows a link, waits for a pipe, reads a device or believes a size that a folder tells.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from airflow_provider_dpone.contracts.errors import ConfigurationError

FILE_LIMIT = 8 * 1024 * 1024
FILE_COUNT_LIMIT = 10_000
#: All files of a release, and all manifests of its workloads, which a reader holds in memory.
RELEASE_LIMIT = 1024 * 1024 * 1024
MANIFESTS_LIMIT = 64 * 1024 * 1024

#: The digest and the size of a file.
Entry = Mapping[str, object]

#: Characters of a name that a terminal would obey, or that no JSON document holds (bytes that are no UTF-8).
_NOT_SHOWN = frozenset({"Cc", "Cs", "Zl", "Zp"})


def entry(data: bytes) -> dict[str, object]:
    """What a release records of a file."""
    return {"sha256": "sha256:" + hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def read_plain(root: Path, path: str) -> bytes:
    """A file of a release: one of its own, not linked, not too large. Refused by its name otherwise."""
    with _opened(root, path) as file:
        if os.fstat(file.fileno()).st_nlink != 1:
            raise _linked(path)
        return _bounded(file, path)


def read_regular(path: Path) -> bytes:
    """A regular file of a bounded size, wherever links lead. OSError if it is none."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "no plain file", str(path))
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(FILE_LIMIT + 1)
    finally:
        os.close(descriptor)
    if len(data) > FILE_LIMIT:
        raise OSError(errno.EFBIG, f"larger than {FILE_LIMIT} bytes", str(path))
    return data


def freeze(source: Path, destination: Path, *, left_out: Collection[str]) -> None:
    """Copy an author's files as they are into a folder that is there, but never more than a release can hold.

    :param left_out: names of files and folders that are not copied.
    """
    count = 0

    def copy(path: str, copied: str) -> str:
        nonlocal count
        count += 1
        require_count(count, path)
        name = os.path.relpath(path, source)
        with _opened(source, name) as file:
            Path(copied).write_bytes(_bounded(file, name))
        shutil.copymode(path, copied)
        return copied

    def ignored(folder: str, names: list[str]) -> list[str]:
        for name in names:
            if shown(name) != name:
                raise ConfigurationError(
                    "release_name",
                    happened=f"{folder} holds {shown(name)}: a name of a release is text that can be shown.",
                )
        return [name for name in names if name in left_out]

    try:
        shutil.copytree(source, destination, symlinks=True, dirs_exist_ok=True, ignore=ignored, copy_function=copy)
    finally:
        # A checkout that is read-only is copied as one, and could then be neither finished nor cleared away.
        for folder, _, _ in os.walk(destination):
            os.chmod(folder, stat.S_IMODE(os.stat(folder).st_mode) | stat.S_IRWXU)


def names(root: Path) -> Iterator[str]:
    """Every name below the root that is no folder, linked folders among them, in one order."""

    def unreadable(err: OSError) -> None:
        raise ConfigurationError(
            "release_unreadable", happened=f"{err.filename} cannot be listed: {err.strerror}."
        ) from err

    count = 0
    for folder, folders, files in os.walk(root, onerror=unreadable):
        folders.sort()
        for name in sorted([*files, *(each for each in folders if (Path(folder) / each).is_symlink())]):
            path = (Path(folder) / name).relative_to(root).as_posix()
            count += 1
            require_count(count, path)
            yield path


def require_total(size: int, path: str, *, limit: int, what: str) -> None:
    """Refuse the file by which all of its kind are too large together."""
    if size > limit:
        raise ConfigurationError(
            "release_size", happened=f"with {shown(path)} {what} have {size} bytes; they have at most {limit}."
        )


def require_count(count: int, path: str) -> None:
    """Refuse the file that is one more than a release may have."""
    if count > FILE_COUNT_LIMIT:
        raise ConfigurationError(
            "release_size",
            happened=f"{shown(path)} is one too many: a release holds at most {FILE_COUNT_LIMIT} files, those that are"
            " generated among them.",
        )


def shown(name: str) -> str:
    """A name as a message shows it: quoted, if it holds what is no visible text."""
    return repr(name) if any(unicodedata.category(each) in _NOT_SHOWN for each in name) else name


@contextmanager
def _opened(root: Path, path: str) -> Iterator[BinaryIO]:
    try:
        # Not blocking: opening a pipe would wait for somebody who writes it.
        descriptor = os.open(root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError as err:
        raise ConfigurationError("release_closure", happened=f"{shown(path)} is missing in {root}.") from err
    except (OSError, ValueError) as err:
        # No file has a name with a NUL, which is no OSError.
        raise ConfigurationError(
            "release_link", happened=f"{shown(path)} is not a plain file of its own: {err}."
        ) from err
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise _linked(path)
        with open(descriptor, "rb", closefd=False) as file:
            yield file
    finally:
        os.close(descriptor)


def _bounded(file: BinaryIO, path: str) -> bytes:
    data = file.read(FILE_LIMIT + 1)
    if len(data) > FILE_LIMIT:
        raise ConfigurationError(
            "release_size", happened=f"{shown(path)}: a file of a release has at most {FILE_LIMIT} bytes."
        )
    return data


def _linked(path: str) -> ConfigurationError:
    return ConfigurationError("release_link", happened=f"{shown(path)} is not a plain file of its own.")
