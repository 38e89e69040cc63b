"""The life of a qualification run stays closed: its records can be read, and nothing that the program has writes one."""

from __future__ import annotations

import inspect
import re
import uuid
from collections.abc import Callable

import pytest

from airflow_provider_dpone import ledger
from airflow_provider_dpone.contracts.errors import AdmissionRefused, GuardError
from airflow_provider_dpone.contracts.qualification import (
    decode_qualification_operation,
    decode_qualification_owner,
)
from airflow_provider_dpone.drivers import Connection
from airflow_provider_dpone.ledger import ActivationStore, AttemptStore, LedgerSettings
from airflow_provider_dpone.ledger.statements import GROUP_FILES, INSTALL_FILES, LedgerSql, install_names, names
from tests.support import ledger_records as make
from tests.support import planted_rows as plant
from tests.support.planted_rows import Domain, PlantedOwner

SETTINGS = LedgerSettings(service_id=make.SERVICE)
SQL = LedgerSql(SETTINGS)
DEFINITION = {name for path in (*INSTALL_FILES, *GROUP_FILES) for name in install_names(path)}
#: Statements with slots of their own do not concern rows of the ledger: rights, and the seeds of an installation.
STATEMENTS = [name for name in names() if name not in DEFINITION and name not in ("seed_incarnation",)]
_WRITE = re.compile(r"(?:INSERT INTO|UPDATE|DELETE FROM|MERGE(?: INTO)?) \[dpone_control\]\.\[(\w+)\]")


def rendered(name: str) -> str:
    from airflow_provider_dpone.ledger.statements import _file_of

    slots = {
        slot: f"[{slot}]"
        for slot in _file_of(name).slots(name)
        if slot in ("user", "login", "user_in_text", "user_text")
    }
    return SQL.text(name, **slots)


def test_no_statement_writes_a_row_of_the_qualification_family() -> None:
    writing = {name: set(_WRITE.findall(rendered(name))) for name in STATEMENTS}
    written = {table for tables in writing.values() for table in tables}
    assert {"composition_owners", "composition_operations", "composition_proofs"} <= written
    for name, tables in writing.items():
        if tables:
            assert "'qualification'" not in rendered(name), name
    for name in ("insert_owner", "insert_operation", "insert_proof", "advance_owner"):
        assert "'execution'" in rendered(name)


def test_no_public_call_takes_a_record_of_qualification() -> None:
    stores = [getattr(ledger, name) for name in ledger.__all__ if name.endswith("Store")]
    assert len(stores) > 5
    for store in stores:
        for name, method in inspect.getmembers(store, inspect.isfunction):
            if not name.startswith("_"):
                assert "Qualification" not in str(inspect.signature(method)), f"{store.__name__}.{name}"


def never() -> Connection:
    raise AssertionError("nothing is opened for a record of qualification")


def test_that_a_record_can_be_read_opens_nothing() -> None:
    engines = [Domain.new(connector) for connector in ("clickhouse", "mssql", "postgres")]
    run = PlantedOwner(subject=plant.qualification_over(engines))
    invocation = plant.invocation_of(run, [engines[0].guard]).operation
    owner = decode_qualification_owner(run.subject.document(), run.subject.sha256)
    operation = decode_qualification_operation(invocation.document(), invocation.sha256)
    activations, attempts = ActivationStore(never, SETTINGS), AttemptStore(never, SETTINGS)
    calls: list[Callable[[], object]] = [
        *(lambda step=step: getattr(activations, step)(owner) for step in ("prepare", "activate", "begin_retirement")),  # type: ignore[misc]  # by value
        lambda: attempts.admit_once(operation, make.coordinates(str(uuid.uuid4())), []),  # type: ignore[arg-type]  # on purpose
        lambda: attempts.finalize(operation, state="SUCCEEDED", outcome_proof_sha256=make.sha("x")),  # type: ignore[arg-type]  # on purpose
    ]
    for call in calls:
        with pytest.raises(GuardError) as refused:
            call()
        assert type(refused.value) is AdmissionRefused
