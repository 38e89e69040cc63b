"""The journal of SQL Server login gates. What the gate does on the server is a callback inside the same transaction.

A gate only moves forward. The step on the server (creating the login, closing the barrier, disabling it) and the move
of the row commit together or not at all, because login DDL is transactional on SQL Server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.attempt import Attempt
from airflow_provider_dpone.contracts.errors import AdmissionRefused, GateTampered
from airflow_provider_dpone.contracts.lifecycle import move_login_gate
from airflow_provider_dpone.contracts.operation import LoginGate
from airflow_provider_dpone.contracts.rules import one_of
from airflow_provider_dpone.drivers import Connect, Cursor
from airflow_provider_dpone.ledger import documents
from airflow_provider_dpone.ledger.arguments import function
from airflow_provider_dpone.ledger.questions import Question, Results
from airflow_provider_dpone.ledger.records import operation_key
from airflow_provider_dpone.ledger.settings import LedgerSettings
from airflow_provider_dpone.ledger.transaction import ControlLedger, ControlTransaction

#: A step on the server with the cursor of the locked transaction. It reads every result set to its end.
ServerStep = Callable[[Cursor], None]
#: The same, answering the evidence document of what it observed.
ObservedStep = Callable[[Cursor], Mapping[str, object]]

_ORDER = ("JOURNALED", "READY", "CLOSING", "CLOSED")


class LoginGateStore:
    """The one gate of an attempt's SQL Server login.

    ``role`` is the role of the connections: the issuer moves a gate to READY, the closer closes it (docs/roles.md).
    """

    def __init__(self, connect: Connect, settings: LedgerSettings, *, role: str) -> None:
        self._ledger = ControlLedger(connect, settings, role=role)

    def read(self, attempt: Attempt | str) -> LoginGate | None:
        """The gate as journaled; None for an attempt without a SQL Server principal."""
        key = operation_key(attempt)
        return self._ledger.read(_rows_of(key).then(lambda rows: rows.gate))

    def to_ready(self, attempt: Attempt | str, create: ServerStep) -> LoginGate:
        """JOURNALED -> READY, once, together with ``create``. Anything but JOURNALED is refused: nobody issues twice.

        ControlUnavailable means that neither the login nor the state exists; after a lost acknowledgement the answer
        is what another connection reads.
        """
        key = operation_key(attempt)
        function(create, "the step that creates the login")

        def work(transaction: ControlTransaction) -> None:
            rows = _rows_of(key)(transaction)
            gate = rows.require()
            if gate.state != "JOURNALED" or rows.operation_state != "RUNNING":
                raise GateTampered(
                    "gate_not_journaled",
                    happened=f"the gate is {gate.state} and the operation {rows.operation_state}: "
                    "a login is created once, by the try that was admitted.",
                    recovery_required=False,
                )
            with transaction.callback() as cursor:
                create(cursor)
            transaction.write(("advance_gate", [key, "JOURNALED", "READY", ""]))

        def still_ready(gate: LoginGate | None) -> LoginGate | None:
            if gate is not None and gate.state != "READY":
                raise GateTampered(
                    "gate_closed_meanwhile",
                    happened=f"the gate is {gate.state}: somebody closed it right after the login was created.",
                    not_done="the login was not handed out.",
                    recovery_required=False,
                )
            return gate

        return self._ledger.mutate("to_ready", work, _reached(key, "READY").then(still_ready))

    def to_closing(self, attempt: Attempt | str, barrier: ServerStep | None = None) -> LoginGate:
        """JOURNALED or READY -> CLOSING: from here on the LOGON trigger refuses the login. Repeatable."""
        key = operation_key(attempt)
        if barrier is not None:
            function(barrier, "the step at the barrier")

        def work(transaction: ControlTransaction) -> LoginGate | None:
            gate = _rows_of(key)(transaction).require()
            if gate.state in ("CLOSING", "CLOSED"):
                return gate
            move_login_gate(gate.state, "CLOSING")
            if barrier is not None:
                with transaction.callback() as cursor:
                    barrier(cursor)
            transaction.write(("advance_gate", [key, gate.state, "CLOSING", ""]))
            return None

        return self._ledger.mutate("to_closing", work, _reached(key, "CLOSING"))

    def to_closed(self, attempt: Attempt | str, disable: ObservedStep) -> LoginGate:
        """CLOSING -> CLOSED, together with ``disable``, whose evidence is stored as the gate's original. Repeatable."""
        key = operation_key(attempt)
        function(disable, "the step that disables the login")

        def work(transaction: ControlTransaction) -> LoginGate | None:
            gate = _rows_of(key)(transaction).require()
            if gate.state == "CLOSED":
                return gate
            if gate.state != "CLOSING":
                raise AdmissionRefused(
                    "login_gate_transition",
                    happened=f"the gate is {gate.state}; only CLOSING becomes CLOSED.",
                    not_done="the login was not disabled.",
                )
            with transaction.callback() as cursor:
                document = documents.encode(disable(cursor))
            sha256 = canonical.sha256_text(document)
            transaction.write(
                ("insert_gate_evidence", [key, "CLOSED_GATES", sha256, document]),
                ("advance_gate", [key, "CLOSING", "CLOSED", sha256]),
            )
            return None

        return self._ledger.mutate("to_closed", work, _reached(key, "CLOSED"))

    def put_quiescence(self, attempt: Attempt | str, document: Mapping[str, object]) -> str:
        """Store the original quiescence observation of a CLOSED gate. The first is kept; returns its digest."""
        key = operation_key(attempt)
        data = documents.encode(document)

        def work(transaction: ControlTransaction) -> str | None:
            rows = _rows_of(key)(transaction)
            gate = rows.require()
            if "QUIESCENCE" in rows.evidence:
                return rows.evidence["QUIESCENCE"][0]
            if gate.state != "CLOSED":
                raise AdmissionRefused(
                    "gate_not_closed",
                    happened=f"the gate is {gate.state}: a writer that may still log in is never quiescent.",
                    not_done="the observation was not stored.",
                )
            transaction.write(("insert_gate_evidence", [key, "QUIESCENCE", canonical.sha256_text(data), data]))
            return None

        def kept(rows: _GateRows) -> str | None:
            found = rows.evidence.get("QUIESCENCE")
            return found[0] if found else None

        return self._ledger.mutate("put_quiescence", work, _rows_of(key).then(kept))

    def gate_evidence(self, attempt: Attempt | str, kind: str) -> Mapping[str, Any] | None:
        """The original observation of a kind: CLOSED_GATES or QUIESCENCE."""
        key = operation_key(attempt)
        one_of(kind, ("CLOSED_GATES", "QUIESCENCE"), "gate_observation")

        def decoded(rows: _GateRows) -> Mapping[str, Any] | None:
            found = rows.evidence.get(kind)
            return documents.decode(found[1], found[0]) if found else None

        return self._ledger.read(_rows_of(key).then(decoded))


class _GateRows:
    """The gate of one operation as one transaction sees it."""

    def __init__(self, key: str, results: Results) -> None:
        gates, evidence = results
        self._key = key
        self.gate: LoginGate | None = None
        self.operation_state: str | None = None
        if gates:
            found, sid, name, state, disabled, operation_state = gates[0]
            self.gate = LoginGate(
                operation_key=found,
                login_sid=bytes(sid),
                login_name=name,
                state=state,
                disabled_evidence_sha256=disabled,
            )
            self.operation_state = operation_state
        self.evidence: dict[str, tuple[str, bytes]] = {kind: (sha256, data) for kind, sha256, data in evidence}

    def require(self) -> LoginGate:
        if self.gate is None:
            raise AdmissionRefused(
                "login_gate_absent", happened=f"operation {self._key} has no SQL Server login in the ledger."
            )
        return self.gate


def _rows_of(key: str) -> Question[_GateRows]:
    return Question((("gate_rows", [key]),), lambda results: _GateRows(key, results))


def _reached(key: str, state: str) -> Question[LoginGate | None]:
    def past(rows: _GateRows) -> LoginGate | None:
        gate = rows.require()
        return gate if _ORDER.index(gate.state) >= _ORDER.index(state) else None

    return _rows_of(key).then(past)
