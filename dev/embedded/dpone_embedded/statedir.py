"""The folder that holds everything a stack leaves on disk: data, logs, generated passwords, its lock and its status."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpone_embedded.errors import StackError


def default_path(checkout: Path) -> Path:
    """A folder of its own for each checkout, outside of it: a short path, without a blank or a letter to trip over.

    As root it is under /var/lib, because PostgreSQL refuses to run as root and its user must be able to reach its data
    (root's home is closed to it). `DPONE_STATE_DIR` overrides.
    """
    named = os.environ.get("DPONE_STATE_DIR")
    if named:
        return Path(named).absolute()
    tag = hashlib.sha256(os.fsencode(checkout.resolve())).hexdigest()[:8]
    if os.geteuid() == 0:
        return Path("/var/lib/dpone-embedded") / tag
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "dpone-embedded" / tag


class StateDir:
    """Paths inside the folder, the lock that one supervisor holds, and the documents that others read."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock: int | None = None

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    def log(self, service: str) -> Path:
        return self.logs / f"{service}.log"

    def data(self, service: str) -> Path:
        return self.path / service

    def create(self) -> None:
        """Make the folder. Others may pass through it (PostgreSQL's user, when we are root) but not list it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.path.chmod(0o711 if os.geteuid() == 0 else 0o700)
            self.logs.mkdir(exist_ok=True)
            self.logs.chmod(0o700)
        except OSError as err:
            raise self._unusable(err) from err
        if self.path.stat().st_uid != os.geteuid():
            raise StackError(
                f"The state folder {self.path} belongs to another user. Nothing was started. "
                "Name another one with --state-dir or DPONE_STATE_DIR."
            )

    def _unusable(self, err: OSError) -> StackError:
        return StackError(
            f"The state folder {self.path} cannot be used: {err.strerror}. Nothing was started. "
            "Name another one with --state-dir or DPONE_STATE_DIR."
        )

    @contextmanager
    def driven(self) -> Iterator[None]:
        """Be the one that drives the stack of this folder, from before its start to after its end. Refused to a second.

        The folder itself is locked: nothing of it is there before, and nothing stays. A driver that dies gives it back.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as err:
            raise self._unusable(err) from err
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as err:
                raise StackError(
                    f"Another run drives the stack in {self.path}. Nothing was started, and nothing of it was touched. "
                    "Wait for its end, or name a folder of your own with --state-dir."
                ) from err
            yield
        finally:
            os.close(handle)

    def command(self, name: str) -> str:
        """What a person types for this folder: `up`, `down` or `status`."""
        return shlex.join([sys.executable, "-m", "dpone_embedded", name, "--state-dir", str(self.path)])

    def lock(self) -> None:
        """Become the one supervisor of this folder. The kernel gives the lock back however we end."""
        handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as err:
            os.close(handle)
            raise StackError(
                f"A stack is already running (or still stopping) in {self.path}. Nothing was started. "
                f"Use it, or stop it first: {self.command('down')}"
            ) from err
        self._lock = handle

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def locked(self) -> bool:
        """Whether some process holds the lock now."""
        try:
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    def secret(self, name: str) -> str:
        """A generated password, the same for every start of this folder. Only letters and digits."""
        known: dict[str, str] = self.read("secrets.json") or {}
        if name not in known:
            known[name] = "Aa1" + secrets.token_hex(20)
            self.write("secrets.json", known)
        return known[name]

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        """Replace a document in one step; only its owner can read it."""
        handle, temporary = tempfile.mkstemp(dir=self.path, prefix=f".{name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            json.dump(document, out, indent=1)
        os.replace(temporary, self.path / name)

    def read(self, name: str) -> dict[str, Any] | None:
        try:
            text = (self.path / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        document: dict[str, Any] = json.loads(text)
        return document
