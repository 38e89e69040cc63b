"""The gate profile of the demo: it runs on an endpoint of its own while the stack starts and the data are loaded.

An activation needs its receipt. A folder of results that an earlier run left is used again when it is of exactly this
clean source; otherwise the profile runs, on the working tree as it is.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from threading import Event
from types import TracebackType

from dpone_embedded.children import MARK, Child, child_environment
from dpone_embedded.errors import StackError
from dpone_embedded.statedir import StateDir

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 900.0


class GateProfile:
    """A context: what still runs at its end is stopped. Its log stays only when the profile was not green."""

    def __init__(self, state: StateDir) -> None:
        self._state = state
        self._known = state.path / "gate-profile"
        self._scratch = Path(tempfile.mkdtemp(prefix="dpone-gate-"))
        self._new = self._scratch / "result"
        self._child: Child | None = None
        self._failed = False

    def __enter__(self) -> GateProfile:
        command = [sys.executable, str(ROOT / "dev" / "profiles" / "component_profile.py"), "--profile", "gate"]
        command += ["--working-tree", "--output-dir", str(self._new), "--unless", str(self._known)]
        environment = child_environment(self._state.path)
        # Not one of the stack's processes: its supervisor ends what carries this mark before it starts.
        del environment[MARK]
        log = self._scratch / "log"
        self._child = Child("the gate profile", command, log=log, environment=environment, cwd=ROOT)
        return self

    def folder(self) -> Path:
        """The results, once the profile has ended green."""
        assert self._child is not None
        try:
            self._child.finish(Event(), SECONDS)
        except StackError as err:
            self._failed = True
            raise StackError(f"No activation is opened without a green gate profile. {err}") from err
        if self._new.exists():
            shutil.rmtree(self._known, ignore_errors=True)
            shutil.copytree(self._new, self._known)
        return self._known

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._child is not None:
            self._child.stop(grace=30)
        if not self._failed:
            shutil.rmtree(self._scratch, ignore_errors=True)
