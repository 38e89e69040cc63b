"""Processes that move only when they are told to, and their control connections, which break when they are told to.

A process is a thread that stops before each call to the ledger, to a gate and to its target. Only one of them moves at
a time, so a sequence of steps is the same sequence again.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal

import mssql_python

from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.drivers import Connect, Connection, Cursor, read_all

#: What befalls the next control transaction of a process. ``reply``: its commit happens, and the answer is lost.
#: ``request``: the commit never arrives. ``late``: the client loses the connection first, and the commit arrives after
#: that. ``cut``: the connection breaks when the lock was taken. ``dies before`` and ``dies after``: the process ends
#: right before or right after its commit.
Fate = Literal["reply", "request", "late", "cut", "dies before", "dies after"]

#: How long a step may take before the machine says that it hangs, in seconds.
PATIENCE = 120
#: How long a late commit is under way, in seconds.
_LATE = 0.05


class Killed(BaseException):
    """SIGKILL: nothing of the process runs any more."""


class Process:
    """One delivery of a try. ``work`` does everything and is given nothing but this."""

    def __init__(self, work: Callable[[Process], Operation], line: Line) -> None:
        self.line = line
        line.process = self
        self.dead = False
        #: Asked to end: it gets SystemExit where it stands, once, and does what it still wants to do.
        self.terminated = False
        self.ended = False
        self.answer: Operation | None = None
        self.error: BaseException | None = None
        self._work = work
        self._left: int | None = 0
        self._go = threading.Semaphore(0)
        self._stopped = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return not self.ended

    def move(self, calls: int | None = None) -> None:
        """Let it do so many calls, or all that are left, and stop it before the next one."""
        assert self.alive
        self._left = calls
        self._resume()

    def kill(self) -> None:
        self.dead = True
        self._resume()
        assert self.ended

    def _resume(self) -> None:
        self._go.release()
        assert self._stopped.acquire(timeout=PATIENCE), "a process neither stopped nor ended"

    def reach(self, name: str) -> None:
        """Called by the process itself before each of its calls."""
        if self._left == 0 and not self.dead:
            self._stopped.release()
            self._go.acquire()
        if self.dead:
            raise Killed
        if self.terminated:
            self.terminated = False
            raise SystemExit("SIGTERM")
        if self._left is not None:
            self._left -= 1

    def die(self) -> None:
        """Called by the process itself: from here on it does nothing."""
        self.dead = True
        raise Killed

    def _run(self) -> None:
        try:
            self._go.acquire()
            if self.dead:
                raise Killed
            self.answer = self._work(self)
        except BaseException as err:  # whatever ended it is looked at by the machine
            self.error = err
        finally:
            self.ended = True
            self._stopped.release()


class Stopping:
    """Passes calls through to a part of a process, which stops before each of them."""

    def __init__(self, inner: Any, process: Process) -> None:
        self._inner = inner
        self._process = process

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not callable(value) or name in ("new_principal", "principals"):
            return value

        def stopping(*arguments: Any, **named: Any) -> Any:
            self._process.reach(name)
            return value(*arguments, **named)

        return stopping


class Line:
    """The control connections of one process, whatever the account; their next transaction may have a fate."""

    def __init__(self, met: Counter[str]) -> None:
        self.fate: Fate | None = None
        self.process: Process | None = None
        self._met = met
        self._late: list[threading.Thread] = []

    def over(self, connect: Connect) -> Connect:
        return lambda: _Connection(connect(), self)

    def meet(self) -> Fate:
        """The fate that is met now, once."""
        assert self.fate is not None
        fate, self.fate = self.fate, None
        self._met[fate] += 1
        return fate

    def later(self, send: Callable[[], None]) -> None:
        thread = threading.Timer(_LATE, send)
        thread.start()
        self._late.append(thread)

    def settle(self) -> None:
        """Wait until nothing of it is under way."""
        for thread in self._late:
            thread.join()
        self._late.clear()


class _Connection:
    def __init__(self, connection: Any, line: Line) -> None:
        self._connection = connection
        self._line = line
        self.lost = False

    def setautocommit(self, value: bool) -> None:
        self._connection.setautocommit(value)

    def cursor(self) -> Cursor:
        return _Cursor(self._connection.cursor(), self, self._line)

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        if not self.lost:
            self._connection.close()

    def lose(self, *, close: bool = True) -> Exception:
        self.lost = True
        if close:
            self._connection.close()
        return mssql_python.OperationalError("Communication link failure", "the connection was reset")

    def send_late(self, operation: str, parameters: Sequence[Any]) -> None:
        """The server gets what the client has given up, unless the session was ended meanwhile."""
        with contextlib.suppress(mssql_python.Error, RuntimeError):
            read_all(self._connection.cursor(), operation, *parameters)
        self._connection.close()


class _Cursor:
    def __init__(self, cursor: Any, connection: _Connection, line: Line) -> None:
        self._cursor = cursor
        self._connection = connection
        self._line = line

    @property
    def description(self) -> Any:
        return self._cursor.description

    @property
    def rowcount(self) -> int:
        return int(self._cursor.rowcount)

    def execute(self, operation: str, /, *parameters: Any) -> Any:
        fate = self._line.fate
        if "COMMIT TRANSACTION;" in operation and fate not in (None, "cut"):
            return self._commit(operation, parameters)
        if fate == "cut" and "sp_getapplock" in operation:
            self._line.meet()
            read_all(self._cursor, operation, *parameters)
            raise self._connection.lose()
        return self._cursor.execute(operation, *parameters)

    def _commit(self, operation: str, parameters: Sequence[Any]) -> Any:
        fate = self._line.meet()
        process = self._line.process
        if fate in ("reply", "dies after"):
            read_all(self._cursor, operation, *parameters)
        if fate in ("dies before", "dies after") and process is not None:
            self._connection.lose()
            process.die()
        if fate == "late":
            lost = self._connection.lose(close=False)
            self._line.later(lambda: self._connection.send_late(operation, parameters))
            raise lost
        raise self._connection.lose()

    def fetchone(self) -> Any:
        return self._cursor.fetchone()

    def fetchall(self) -> Sequence[Any]:
        return list(self._cursor.fetchall())

    def nextset(self) -> bool | None:
        return bool(self._cursor.nextset())

    def close(self) -> None:
        if not self._connection.lost:
            self._cursor.close()


class Pool:
    """Connections that are used again: what a test saves in logins. What is left open in one is rolled back."""

    def __init__(self) -> None:
        self._idle: dict[Any, list[Any]] = {}

    def over(self, key: Any, connect: Connect) -> Connect:
        def taken() -> Connection:
            idle = self._idle.setdefault(key, [])
            return _Pooled(idle.pop() if idle else connect(), idle)

        return taken

    def drop(self) -> None:
        for idle in self._idle.values():
            while idle:
                idle.pop().close()


class _Pooled:
    def __init__(self, connection: Any, idle: list[Any]) -> None:
        self._connection = connection
        self._idle = idle
        self._broken = False

    def setautocommit(self, value: bool) -> None:
        self._connection.setautocommit(value)

    def cursor(self) -> Cursor:
        return self._connection.cursor()  # type: ignore[no-any-return]  # as the driver's connection

    def commit(self) -> None:
        self._connection.commit()

    def rollback(self) -> None:
        self._connection.rollback()

    def close(self) -> None:
        try:
            self._connection.setautocommit(True)
            read_all(self._connection.cursor(), "IF @@TRANCOUNT > 0 ROLLBACK TRANSACTION;")
        except (mssql_python.Error, RuntimeError):
            self._connection.close()
        else:
            self._idle.append(self._connection)
