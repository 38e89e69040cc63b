"""Who writes for an attempt, and for which task try the attempt was made.

A principal is a random identity that admission journals before anything is created. SQL Server SIDs carry a fixed tag
in their first six bytes, by which the LOGON trigger tells them from every other login without reading any table.
"""

from __future__ import annotations

import re
import secrets
import uuid
from dataclasses import dataclass
from typing import Literal, get_args

from airflow_provider_dpone.contracts.errors import AdmissionRefused
from airflow_provider_dpone.contracts.rules import INT_MAX, coordinate_text, digest, uuid_text, whole_number

Connector = Literal["mssql", "clickhouse", "postgres"]
Purpose = Literal["ingest", "publish", "build", "extract"]

#: 'dpone' and the version of the tag. The remaining ten bytes of a SID are random.
SID_TAG = b"dpone\x01"

_PRINCIPAL_ID = {
    "mssql": re.compile(r"mssql-sid:[0-9a-f]{32}"),
    "clickhouse": re.compile(r"clickhouse-user:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    "postgres": re.compile(r"postgres-role:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinates:
    """The Airflow task try. ``map_index`` is -1 when unmapped; the digest pins what a mapped index meant."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    task_instance_id: str
    mapped_input_sha256: str | None = None

    def __post_init__(self) -> None:
        for value in (self.dag_id, self.run_id, self.task_id):
            coordinate_text(value)
        whole_number(self.try_number, "scheduler_attempt", at_least=1, at_most=INT_MAX)
        whole_number(self.map_index, "scheduler_attempt", at_least=-1, at_most=INT_MAX)
        uuid_text(self.task_instance_id, "task_instance_id")
        if self.mapped_input_sha256 is not None:
            digest(self.mapped_input_sha256)

    @property
    def instance(self) -> tuple[str, str, str, int]:
        """The stable key of the task instance: everything but the try."""
        return (self.dag_id, self.run_id, self.task_id, self.map_index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """One journaled identity. ``principal_id`` is the form that proofs name; ``name`` is the login or user name."""

    connector: Connector
    service_id: str
    principal_id: str
    name: str
    purpose: Purpose

    def __post_init__(self) -> None:
        pattern = _PRINCIPAL_ID.get(self.connector) if type(self.connector) is str else None
        if pattern is None or type(self.principal_id) is not str or not pattern.fullmatch(self.principal_id):
            raise AdmissionRefused("principal")
        if self.purpose not in get_args(Purpose):
            raise AdmissionRefused("principal_purpose")
        uuid_text(self.service_id, "protected_service_id")
        coordinate_text(self.name)

    @property
    def sid(self) -> bytes:
        """The sixteen bytes of a SQL Server login's SID."""
        if self.connector != "mssql":
            raise AdmissionRefused("principal")
        return bytes.fromhex(self.principal_id.removeprefix("mssql-sid:"))

    @property
    def key(self) -> tuple[str, str, str]:
        """How authorities are ordered and compared in proofs."""
        return (self.connector, self.service_id, self.principal_id)


def new_mssql_principal(service_id: str, purpose: Purpose) -> Principal:
    """A login identity nobody else has: tagged SID, and a name derived from it."""
    sid = SID_TAG + secrets.token_bytes(16 - len(SID_TAG))
    return Principal(
        connector="mssql",
        service_id=service_id,
        principal_id=f"mssql-sid:{sid.hex()}",
        name=f"dpone_a_{sid.hex()}",
        purpose=purpose,
    )


def new_clickhouse_principal(service_id: str, purpose: Purpose) -> Principal:
    """A ClickHouse user identity: a random uuid, and a name derived from it."""
    user = uuid.uuid4()
    return Principal(
        connector="clickhouse",
        service_id=service_id,
        principal_id=f"clickhouse-user:{user}",
        name=f"dpone_a_{user.hex}",
        purpose=purpose,
    )


def new_postgres_principal(service_id: str, purpose: Purpose) -> Principal:
    """A PostgreSQL role identity: a random uuid, and a name derived from it."""
    role = uuid.uuid4()
    return Principal(
        connector="postgres",
        service_id=service_id,
        principal_id=f"postgres-role:{role}",
        name=f"dpone_a_{role.hex}",
        purpose=purpose,
    )
