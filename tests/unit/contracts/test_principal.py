"""Journaled identities and coordinates."""

from __future__ import annotations

import pytest

from airflow_provider_dpone.contracts.errors import AdmissionRefused, GuardError, NotQuiescent, Overlap
from airflow_provider_dpone.contracts.principal import (
    SID_TAG,
    Coordinates,
    Principal,
    new_clickhouse_principal,
    new_mssql_principal,
    new_postgres_principal,
)
from airflow_provider_dpone.contracts.proof import authorities_of

SERVICE = "0f8fad5b-d9cd-469f-a165-70867728950e"
INSTANCE = "11111111-2222-4333-8444-555555555555"


def coordinates(**changes: object) -> Coordinates:
    values: dict[str, object] = {
        "dag_id": "flights",
        "run_id": "manual__2026-11-29T13:52:27.237281+00:00",
        "task_id": "nightly.load",
        "map_index": -1,
        "try_number": 1,
        "task_instance_id": INSTANCE,
    }
    return Coordinates(**(values | changes))  # type: ignore[arg-type]  # the wrong types are what is tested


def test_a_sid_carries_the_tag_and_its_name_and_is_never_repeated() -> None:
    principals = [new_mssql_principal(SERVICE, "build") for _ in range(1000)]
    assert all(p.sid.startswith(SID_TAG) and len(p.sid) == 16 for p in principals)
    assert all(p.name == f"dpone_a_{p.sid.hex()}" for p in principals)
    assert len({p.principal_id for p in principals}) == 1000


def test_proofs_name_sql_server_and_clickhouse_in_order_and_never_postgres() -> None:
    principals = [
        new_mssql_principal(SERVICE, "build"),
        new_postgres_principal(SERVICE, "extract"),
        new_clickhouse_principal(SERVICE, "ingest"),
        new_clickhouse_principal(SERVICE, "publish"),
    ]
    named = authorities_of(principals)
    assert [authority.connector for authority in named] == ["clickhouse", "clickhouse", "mssql"]
    assert list(named) == sorted(named)


@pytest.mark.parametrize(
    ("principal_id", "connector"),
    [
        ("mssql-sid:" + "A" * 32, "mssql"),
        ("mssql-sid:" + "a" * 31, "mssql"),
        (f"clickhouse-user:{SERVICE}", "mssql"),
        (f"clickhouse-user:{SERVICE.upper()}", "clickhouse"),
        ("x", "oracle"),
    ],
)
def test_a_principal_id_has_the_form_of_its_engine(principal_id: str, connector: str) -> None:
    with pytest.raises(AdmissionRefused):
        Principal(
            connector=connector,  # type: ignore[arg-type]  # the wrong values are what is tested
            service_id=SERVICE,
            principal_id=principal_id,
            name="n",
            purpose="build",
        )


@pytest.mark.parametrize("dag_id", ["d" * 250, "täsk", "группа.задача", "a b", "表"])
def test_real_airflow_ids_are_coordinates(dag_id: str) -> None:
    assert coordinates(dag_id=dag_id).instance[0] == dag_id


@pytest.mark.parametrize(
    "changes",
    [
        {"dag_id": "a\\b"},
        {"run_id": ""},
        {"task_id": "x" * 513},
        {"map_index": -2},
        {"map_index": True},
        {"try_number": 0},
        {"task_instance_id": "x"},
        {"mapped_input_sha256": "md5:1"},
    ],
)
def test_coordinates_that_cannot_be_told_apart_later_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(AdmissionRefused):
        coordinates(**changes)


def test_an_error_says_its_code_its_reason_and_what_is_in_the_way() -> None:
    seen = NotQuiescent(sessions=[{"session_id": 57, "status": "rollback"}])
    assert str(seen).splitlines()[0] == "DPONE_NOT_QUIESCENT: sessions_present"
    assert "session_id=57" in str(seen)
    blocked = Overlap(blockers=["sha256:1"])
    assert blocked.as_document()["blockers"] == ["sha256:1"]
    assert isinstance(blocked, AdmissionRefused)
    assert isinstance(seen, GuardError)
