"""One way to change the ledger, and one way to read it.

A mutation is one SERIALIZABLE transaction under the exclusive control lock. The same transaction must be seen before,
between and after all its statements: a changed identity means that the server rolled back silently, and nothing that
follows may be believed. It commits once, in the batch that carries its last writes. What it did is then read back on an
independent connection. When the acknowledgement of that batch is lost, nothing is sent again: the rows are read under
the exclusive lock, which the lost session can no longer hold, and they decide.

So a mutation is four batches: begin, lock and audit; what is decided on; writes and commit; the readback, which brings
its own audit along.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Protocol, TypeVar, cast

from airflow_provider_dpone.contracts.errors import (
    ConfigurationError,
    ControlUnavailable,
    GuardError,
    LedgerTampered,
    OutcomeUnknown,
)
from airflow_provider_dpone.drivers import Connect, Connection, Cursor, drain
from airflow_provider_dpone.drivers.mssql_rights import right_missing
from airflow_provider_dpone.drivers.trigger_points import reach
from airflow_provider_dpone.ledger import audit
from airflow_provider_dpone.ledger.arguments import function
from airflow_provider_dpone.ledger.questions import Part, Question, Results
from airflow_provider_dpone.ledger.settings import LedgerSettings
from airflow_provider_dpone.ledger.statements import LedgerSql

__all__ = ["ControlLedger", "ControlTransaction", "Part", "Question", "driver_errors"]

T = TypeVar("T")

#: What the ledger's own THROW statements start with.
REFUSAL_MARK = "DPONE_LEDGER: "

#: Waits before a readback is tried again, in seconds. Reading again is always safe.
_READBACK_WAITS = (0.2, 1.0, 3.0)

#: Waits before a transaction that the server chose as deadlock victim is begun again, in seconds.
_DEADLOCK_WAITS = (0.1, 0.5, 2.0)

_LOCK_RESULTS = {-1: "the wait for it timed out", -2: "the wait was cancelled", -3: "the wait ended as deadlock victim"}


_DEADLOCK = "control_deadlock"

#: The rule of the ledger's SQL that says what a changed identity says here.
_IDENTITY = "transaction_identity"


class _ManualConnection(Protocol):
    def setautocommit(self, value: bool) -> None: ...


class ControlTransaction:
    """An open transaction of the ledger whose identity is checked with every batch."""

    def __init__(self, connection: Connection, sql: LedgerSql, identity: tuple[int, int, int]) -> None:
        self._connection = connection
        self._sql = sql
        self._identity = identity
        self._writes: tuple[Part, ...] = ()
        self._left = False

    def run(self, *parts: Part) -> Results:
        """Send the parts as one batch and return their result sets. One round trip."""
        assert not self._writes, "the last writes of a transaction travel with its commit: nothing follows them"
        before = [self._same] if self._left else []
        self._left = False
        results = self._send(*before, *parts, ("identity", []))
        if results.pop() != [self._identity]:
            raise _another_transaction()
        return results

    def write(self, *parts: Part) -> None:
        """The last writes of the transaction: they are sent in the batch that commits it, and never before."""
        assert not self._writes, "a transaction has its last writes once"
        self._writes = parts

    @contextmanager
    def callback(self) -> Iterator[Cursor]:
        """A cursor of this transaction for a step of someone else. The next batch observes the identity first."""
        self._left = True
        cursor = self._connection.cursor()
        try:
            yield cursor
        finally:
            cursor.close()

    def commit(self) -> Results:
        """Send the last writes and commit, in one batch."""
        return self._send(self._same, *self._writes, ("commit_writes", []))

    @property
    def _same(self) -> Part:
        return ("same_transaction", [self._identity[2]])

    def _send(self, *parts: Part) -> Results:
        return send(self._connection, self._sql, parts)


def send(connection: Connection, sql: LedgerSql, parts: Iterable[Part]) -> Results:
    """The parts as one batch, and every result set of it."""
    named = list(parts)
    text = "\n".join(sql.text(name) for name, _ in named)
    return drain(connection, text, *(value for _, values in named for value in values))


class ControlLedger:
    """Connections and the two kinds of transaction. The stores are built on it. ``role`` is for errors."""

    def __init__(self, connect: Connect, settings: LedgerSettings, *, role: str = "controller") -> None:
        self._connect = function(connect, "what gives control connections")
        self._role = role
        self.settings = settings
        self.sql = LedgerSql(settings)

    def mutate(
        self,
        step: str,
        work: Callable[[ControlTransaction], T | None],
        readback: Callable[[ControlTransaction], T | None],
        *,
        unknown: type[OutcomeUnknown] = OutcomeUnknown,
    ) -> T:
        """Run ``work`` in one exclusive transaction, commit once, and return what ``readback`` finds afterwards.

        ``work`` returns None to commit, or an answer when everything is already as asked: then nothing is written.
        ``readback`` runs in a later transaction on another connection and returns None when the change is not there.

        A deadlock victim is begun again a few times, and ``work`` with it: the server's word that it rolled the
        transaction back is certain, so this repeats nothing that may have happened.

        Raises ControlUnavailable when it is certain that nothing was committed, ``unknown`` when the commit was sent
        and its effect could not be read, and whatever ``work`` or ``readback`` refuse.
        """
        for wait in _DEADLOCK_WAITS:
            try:
                return self._mutate_once(step, work, readback, unknown)
            except ControlUnavailable as err:
                if err.reason != _DEADLOCK:
                    raise
            time.sleep(wait)
        return self._mutate_once(step, work, readback, unknown)

    def _mutate_once(
        self,
        step: str,
        work: Callable[[ControlTransaction], T | None],
        readback: Callable[[ControlTransaction], T | None],
        unknown: type[OutcomeUnknown],
    ) -> T:
        with self._exclusive(step) as transaction:
            try:
                answer = work(transaction)
            except driver_errors() as err:
                # The commit was not sent, so the server rolls back whatever was.
                raise self._nothing_committed(step, err) from err
            if answer is not None:
                return answer
            lost = self._commit(step, transaction)
        if lost is None:
            found = self._read_back(step, readback, unknown)
        else:
            found = self._resolve(step, readback, unknown, lost)
        reach(step, "acknowledged")
        return found

    def read(self, query: Callable[[ControlTransaction], T]) -> T:
        """Run ``query`` in one SNAPSHOT transaction: no half of a change is seen, and no writer is waited for.

        A Question is one batch; anything else begins first and then sends what it sends.
        """
        try:
            if isinstance(query, Question):
                question: Question[T] = query
                return self._ask(question)
            with self._session() as connection:
                return query(self._begin(connection, "begin_snapshot"))
        except driver_errors() as err:
            if missing := right_missing(self._role, "reading the ledger", err):
                raise missing from err
            raise ControlUnavailable("control_read", happened=f"the ledger could not be read: {_cause(err)}") from err

    def _ask(self, question: Question[T]) -> T:
        with self._session() as connection:
            parts = [("begin_snapshot", []), ("without_ledger", []), *question.parts]
            try:
                first, *results = send(connection, self.sql, [*parts, ("identity", []), ("end_snapshot", [])])
            except driver_errors():
                # Rows that cannot be selected say nothing of why: the audit alone names a damaged catalog.
                self._require_sound()
                raise
            identity = self._verify(connection, [first, *results[: audit.RESULT_SETS]])
            if results.pop() != [identity]:
                raise _another_transaction()
            return question.answer(results[audit.RESULT_SETS :])

    def _require_sound(self) -> None:
        with suppress(ControlUnavailable, *driver_errors()), self._session() as connection:
            self._begin(connection, "begin_snapshot")

    @contextmanager
    def _session(self) -> Iterator[Connection]:
        connection = self._open()
        try:
            yield connection
        finally:
            # Closing ends a transaction that was not committed, and with it the lock.
            _close(connection)

    @contextmanager
    def _exclusive(self, step: str) -> Iterator[ControlTransaction]:
        with self._session() as connection:
            try:
                transaction = self._begin(connection, "begin_exclusive")
            except driver_errors() as err:
                raise self._nothing_committed(step, err) from err
            yield transaction

    def _open(self) -> Connection:
        try:
            connection = self._connect()
            # Transactions are written in SQL that can be read; a driver's own implicit BEGIN would nest with ours.
            cast("_ManualConnection", connection).setautocommit(True)
        except driver_errors() as err:
            raise ControlUnavailable("control_connect", happened=f"no control session: {_cause(err)}") from err
        return connection

    def _begin(self, connection: Connection, batch: str) -> ControlTransaction:
        identity = self._verify(connection, drain(connection, self.sql.text(batch)))
        return ControlTransaction(connection, self.sql, identity)

    def _verify(self, connection: Connection, results: Results) -> tuple[int, int, int]:
        """The identity of a transaction whose begin answered this: the lock, one healthy transaction, the audit."""
        first, *audited = results
        lock_result, count, state, transaction_id = first[0]
        if lock_result < 0:
            raise ControlUnavailable(
                "control_lock",
                happened="the exclusive control lock was not granted: "
                + _LOCK_RESULTS.get(lock_result, f"sp_getapplock answered {lock_result}")
                + ".",
                check="whether somebody works on the ledger, then repeat the same call. A session that holds the lock and"
                " stands still (a paused worker) is ended by `dponectl ledger unlock` and by the maintenance DAG.",
                details={"lock_result": lock_result},
            )
        if (count, state) != (1, 1) or type(transaction_id) is not int or transaction_id <= 0:
            raise ControlUnavailable(
                _IDENTITY,
                happened=f"the server opened no single healthy transaction: {(count, state, transaction_id)}.",
            )
        audit.verify(connection, self.sql, self.settings, audited)
        return (1, 1, transaction_id)

    def _commit(self, step: str, transaction: ControlTransaction) -> Exception | None:
        """Write and commit once. Returns what happened to a lost acknowledgement, None when it arrived."""
        reach(step, "before")
        try:
            results = transaction.commit()
            reach(step, "applied")
        except driver_errors() as err:
            # A refusal by name, a deadlock and a missing right are the server's own word that it rolled back. Whatever
            # else was said, whether it committed is decided by reading, never by the kind of error.
            if _is_deadlock(err) or REFUSAL_MARK in str(err) or right_missing(self._role, step, err):
                raise self._nothing_committed(step, err) from err
            return err
        if results != [[(0,)]]:
            raise OutcomeUnknown("control_commit", happened=f"{step}: the commit answered {results}.")
        return None

    def _nothing_committed(self, step: str, err: Exception) -> GuardError:
        """The right word for an error before the commit: a refusal of the ledger, a missing right, or no server."""
        text = str(err)
        if REFUSAL_MARK in text:
            rule = text.split(REFUSAL_MARK, 1)[1].split()[0].strip(".;'\"")
            if rule == _IDENTITY:
                return _another_transaction()
            return LedgerTampered(
                f"refused_{rule}",
                happened=f"{step}: the ledger's own rule {rule!r} refused a write that the rows read before allowed.",
            )
        return right_missing(self._role, step, err) or ControlUnavailable(
            _DEADLOCK if _is_deadlock(err) else "control_operation",
            happened=f"{step}: the control operation failed before its commit: {_cause(err)}",
            not_done="nothing was committed; the server rolled the transaction back.",
        )

    def _read_back(
        self, step: str, readback: Callable[[ControlTransaction], T | None], unknown: type[OutcomeUnknown]
    ) -> T:
        def there(found: T | None) -> T:
            if found is None:
                raise LedgerTampered(
                    "readback",
                    happened=f"{step}: the commit was acknowledged, and another connection does not find the change.",
                    state_may_have_changed=True,
                )
            return found

        query: Callable[[ControlTransaction], T]
        if isinstance(readback, Question):
            query = readback.then(there)
        else:
            query = lambda transaction: there(readback(transaction))  # noqa: E731  # the same of several batches
        return self._patiently(step, lambda: self.read(query), unknown, None)

    def _resolve(
        self,
        step: str,
        readback: Callable[[ControlTransaction], T | None],
        unknown: type[OutcomeUnknown],
        lost: Exception,
    ) -> T:
        """The acknowledgement is lost: whoever holds the lock exclusively sees what the lost session did, for good."""

        def query() -> T:
            with self._exclusive(step) as transaction:
                try:
                    found = readback(transaction)
                except driver_errors() as err:
                    raise ControlUnavailable("control_read", happened=_cause(err)) from err
            if found is None:
                raise _ProvenAbsent
            return found

        try:
            return self._patiently(step, query, unknown, lost)
        except _ProvenAbsent:
            raise ControlUnavailable(
                "control_commit_lost",
                happened=f"{step}: the commit was lost and did not happen: the exclusive lock shows it.",
                not_done="nothing was committed.",
            ) from lost

    def _patiently(self, step: str, query: Callable[[], T], unknown: type[OutcomeUnknown], lost: Exception | None) -> T:
        for wait in _READBACK_WAITS:
            try:
                return query()
            except (ControlUnavailable, ConfigurationError):
                # The commit was sent: whatever keeps the ledger from being read now, the change may be there.
                time.sleep(wait)
        try:
            return query()
        except (ControlUnavailable, ConfigurationError) as err:
            raise unknown(
                "control_operation_unknown",
                happened=f"{step}: the commit was sent, and the ledger could not be read since: {err.happened}",
                not_done="the change was not sent a second time, and nothing was built upon it.",
                check="the control database; then read the operation or the activation again.",
                avoid="repeat the step before the ledger was read.",
            ) from (lost or err)


def _another_transaction() -> ControlUnavailable:
    return ControlUnavailable(
        _IDENTITY,
        happened="the control transaction is no longer the one that was begun: the server rolled it back.",
        not_done="nothing was committed.",
        check="the server's log for the reason, then repeat the same call.",
    )


def _close(connection: Connection) -> None:
    # A connection that broke has nothing left to end, and what was to be said about it is already said.
    with suppress(*driver_errors()):
        connection.close()


class _ProvenAbsent(Exception):
    """Under the exclusive lock the change is not there."""


@cache
def driver_errors() -> tuple[type[Exception], ...]:
    """What the driver raises. Its compiled part raises RuntimeError for some lost connections."""
    import mssql_python

    return (mssql_python.Error, RuntimeError, OSError)


def _is_deadlock(err: Exception) -> bool:
    """SQLSTATE 40001 (1205, 3960), for which the driver has this text and no number."""
    return getattr(err, "driver_error", None) == "Serialization failure"


def _cause(err: Exception) -> str:
    return " ".join(str(err).split())[:400] or type(err).__name__
