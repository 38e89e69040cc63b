"""Operations that need one PostgreSQL role and nothing else, so that no other engine has to run."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial

import pytest

from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.ownership import guard_id
from tests.support import ledger_records as make
from tests.support.live_postgres import LivePostgres


@pytest.fixture
def admit(postgres: LivePostgres, admit_on: Callable[[LivePostgres], Operation]) -> Callable[[], Operation]:
    """An operation as admission leaves it: its role is journaled, and not created."""
    return partial(admit_on, postgres)


@pytest.fixture(scope="session")
def admit_on() -> Callable[[LivePostgres], Operation]:
    """The same on a server that a test names."""
    domain = make.domain(f"target {uuid.uuid4()}")
    guard = guard_id(connector=domain[1], service_id=domain[2], physical_subject_sha256=domain[3])
    request = make.request([domain, make.domain("other", "clickhouse")])

    def admitted(postgres: LivePostgres) -> Operation:
        where = make.coordinates(f"manual__{uuid.uuid4()}")
        attempt = make.attempt(request, "w000", ((guard, 1),), where)
        return Operation(
            attempt=attempt,
            attempt_sha256=attempt.sha256,
            owner_key=make.sha("owner"),
            activation_id=str(uuid.uuid4()),
            state="RUNNING",
            coordinates=where,
            principals=(postgres.gate().new_principal("extract"), postgres.gate().new_principal("ingest")),
            gate=None,
            proofs=(),
            closed_gates_proof_sha256=None,
            quiescence_proof_sha256=None,
            outcome_proof_sha256=None,
        )

    return admitted


@pytest.fixture
def operation(admit: Callable[[], Operation]) -> Operation:
    return admit()
