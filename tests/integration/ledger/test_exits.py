"""Nothing is a dead end: whatever an attempt left, on whichever engines, it can be closed, proven and ended.

The ledger is real. The engines' gates are stated: what they do on their servers is proven where those are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from airflow_provider_dpone.attempts import Settlement
from airflow_provider_dpone.contracts.errors import Duplicate, OutcomeUnknown
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Connector, Principal, Purpose, new_postgres_principal
from airflow_provider_dpone.drivers import Connect, Connection
from airflow_provider_dpone.gates.interface import Credential, Grant
from airflow_provider_dpone.routes.interface import AttemptContext, Observation, Outcome, RouteReport
from tests.support.ledger_records import CLICKHOUSE, SERVICE
from tests.support.live_ledger import LiveLedger, nothing
from tests.support.watched_connection import WatchedConnection, WatchedCursor

POSTGRES = "9b2c3d4e-1111-4222-8333-444455556666"


@dataclass(frozen=True)
class StatedGate:
    """A gate that closes whatever it is asked to close."""

    connector: Connector
    service_id: str

    def new_principal(self, purpose: Purpose) -> Principal:
        raise AssertionError("nothing new is made while an attempt is settled")

    def issue(self, operation: Operation, principal: Principal, grant: Grant) -> Credential:
        raise AssertionError("nothing is issued while an attempt is settled")

    def close(self, operation: Operation, principal: Principal) -> Mapping[str, object]:
        return {"schema": "test.closed.v1", "principal_id": principal.principal_id}

    def prove_quiescent(self, operation: Operation, principal: Principal) -> Mapping[str, object]:
        return {"schema": "test.quiet.v1", "principal_id": principal.principal_id}


@dataclass(frozen=True)
class JournaledLogin(StatedGate):
    """The same for a login, whose gate is journaled in the ledger."""

    ledger: LiveLedger = field(kw_only=True)

    def close(self, operation: Operation, principal: Principal) -> Mapping[str, object]:
        evidence = StatedGate.close(self, operation, principal)
        self.ledger.gates.to_closing(operation.attempt)
        self.ledger.gates.to_closed(operation.attempt, lambda cursor: evidence)
        return evidence

    def prove_quiescent(self, operation: Operation, principal: Principal) -> Mapping[str, object]:
        evidence = StatedGate.prove_quiescent(self, operation, principal)
        self.ledger.gates.put_quiescence(operation.attempt, evidence)
        return evidence


class NoEffect:
    """A route whose target shows nothing of the attempt."""

    cell = "sqlserver_dbt_v1"

    def principals(self) -> tuple[tuple[Connector, Purpose], ...]:
        return ()

    def admission_record(self, ctx: Observation) -> Mapping[str, object]:
        return {"schema": "test.admission.v1"}

    def work(self, ctx: AttemptContext) -> RouteReport:
        raise AssertionError("nothing works while an attempt is settled")

    def outcome(self, ctx: Observation) -> Outcome:
        return Outcome(state="FAILED", evidence={"schema": "test.outcome.v1", "effects": []})


def settlement(ledger: LiveLedger, operation: Operation) -> Settlement:
    gates = {
        "mssql": JournaledLogin("mssql", SERVICE, ledger=ledger),
        "clickhouse": StatedGate("clickhouse", CLICKHOUSE),
        "postgres": StatedGate("postgres", POSTGRES),
    }
    return Settlement(operation, route=NoEffect(), gates=gates, ledger=ledger.attempts, quiescence_seconds=0.0)  # type: ignore[arg-type]  # stated gates


ENGINES: dict[str, Callable[[LiveLedger], list[Principal]]] = {
    "clickhouse": lambda ledger: ledger.clickhouse(),
    "mixed": lambda ledger: [*ledger.clickhouse(), *ledger.login(), new_postgres_principal(POSTGRES, "extract")],
}


def issued(ledger: LiveLedger, operation: Operation) -> None:
    if operation.gate is not None:
        ledger.gates.to_ready(operation.attempt, nothing)


def closing(ledger: LiveLedger, operation: Operation) -> None:
    if operation.gate is not None:
        ledger.gates.to_closing(operation.attempt)


def closed(ledger: LiveLedger, operation: Operation) -> None:
    settlement(ledger, operation).close()


#: How far the attempt, or whoever settled it before, came before it died.
DEATHS: dict[str, Callable[[LiveLedger, Operation], None]] = {
    "admitted": lambda ledger, operation: None,
    "issued": issued,
    "closing": closing,
    "closed": closed,
}


def test_an_attempt_that_died_anywhere_is_ended_and_its_data_comes_free(ledger: LiveLedger) -> None:
    lives = [("mixed", death) for death in DEATHS] + [("clickhouse", death) for death in ("admitted", "closed")]
    activation = ledger.active(len(lives))
    for number, (engines, death) in enumerate(lives):
        operation = ledger.admit(activation, f"w{number:03}", principals=ENGINES[engines](ledger))
        DEATHS[death](ledger, operation)

        found = ledger.attempts.read_exact(operation.attempt)
        assert found is not None and found.state == "RUNNING"
        ended = settlement(ledger, found).settle()

        assert ended.state == "FAILED", (engines, death)
        assert ended.gate is None or ended.gate.state == "CLOSED"
    assert ledger.retire(activation).state == "RETIRED"


def test_proofs_of_a_mixed_attempt_name_two_engines_and_bind_the_third_through_the_evidence(ledger: LiveLedger) -> None:
    """A proof has no place for a PostgreSQL role, so the document that it names has all of them (design 10.1)."""
    operation = ledger.admit(ledger.active(), principals=ENGINES["mixed"](ledger))
    ended = settlement(ledger, operation).settle()
    documents = {each.sha256: each.document for each in ledger.attempts.evidence_history(operation.attempt)}
    everybody = {principal.principal_id for principal in operation.principals}
    assert len(everybody) == 4
    for proof in ended.proofs[:2]:
        assert {authority.connector for authority in proof.authorities} == {"clickhouse", "mssql"}
        named = documents[proof.evidence_sha256]["principals"]
        assert {each["principal_id"] for each in named} == everybody
        assert all(each["evidence"]["principal_id"] == each["principal_id"] for each in named)


class Unheard:
    """The first commit is sent, or is not, and nothing is heard of the server from then on."""

    def __init__(self, connect: Connect, *, sent: bool) -> None:
        self._connect = connect
        self._sent = sent
        self._gone = False

    def __call__(self) -> Connection:
        if self._gone:
            raise OSError("no route to host")
        return _Unheard(self._connect(), self)

    def lost(self, cursor: Any, batch: str, parameters: tuple[Any, ...]) -> None:
        if "COMMIT TRANSACTION;" in batch:
            self._gone = True
            if self._sent:
                cursor.execute(batch, *parameters)
                while cursor.nextset():
                    pass
            raise OSError("connection reset")


class _Unheard(WatchedConnection):
    def __init__(self, connection: Any, fate: Unheard) -> None:
        super().__init__(connection, lambda batch: None)
        self._fate = fate

    def cursor(self) -> Any:
        return _UnheardCursor(self._connection.cursor(), self._fate)


class _UnheardCursor(WatchedCursor):
    def __init__(self, cursor: Any, fate: Unheard) -> None:
        super().__init__(cursor, lambda batch: None)
        self._fate = fate

    def execute(self, operation: str, /, *parameters: Any) -> Any:
        self._fate.lost(self._cursor, operation, parameters)
        return super().execute(operation, *parameters)


@pytest.mark.parametrize("engines", ENGINES)
@pytest.mark.parametrize("sent", [True, False], ids=["journaled", "not journaled"])
def test_a_lost_journal_acknowledgement_has_a_way_out(
    ledger: LiveLedger, monkeypatch: pytest.MonkeyPatch, engines: str, sent: bool
) -> None:
    """Nobody knows whether the attempt and its principals are journaled. The next try looks, and goes on."""
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    activation = ledger.active()
    attempt, where = ledger.attempt(activation)
    principals = ENGINES[engines](ledger)
    with pytest.raises(OutcomeUnknown) as unknown:
        ledger.through(Unheard(ledger.connect, sent=sent)).attempts.admit_once(attempt, where, principals)
    assert unknown.value.reason == "control_operation_unknown"

    found = ledger.attempts.find(*where.instance)
    if not sent:
        assert found == ()
        assert ledger.attempts.admit_once(attempt, where, principals).state == "RUNNING"
        return
    [operation] = found
    assert {principal.key for principal in operation.principals} == {principal.key for principal in principals}
    with pytest.raises(Duplicate):
        ledger.attempts.admit_once(attempt, where, ENGINES[engines](ledger))
    assert settlement(ledger, operation).settle().state == "FAILED"
    again, second = ledger.attempt(activation, where=replace(where, try_number=2))
    assert ledger.attempts.admit_once(again, second, ENGINES[engines](ledger)).state == "RUNNING"
