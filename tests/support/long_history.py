"""A ledger with a long past: retired activations with ended operations, as rows that every audit accepts.

The documents are made and digested by the contracts. The rows go in as a DBA could put them there: by bulk copy, which
checks every constraint, while the triggers are off. So a past of years is planted in seconds.
"""

from __future__ import annotations

import datetime
import itertools
import uuid
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Literal

from airflow_provider_dpone.contracts.attempt import Attempt
from airflow_provider_dpone.contracts.canonical import sha256_text
from airflow_provider_dpone.contracts.gate_evidence import GateObservation
from airflow_provider_dpone.contracts.principal import Coordinates, new_mssql_principal
from airflow_provider_dpone.contracts.proof import TerminalState, proof_for
from airflow_provider_dpone.drivers import drain
from airflow_provider_dpone.drivers.mssql import MsSqlDsn, connect, connect_autocommit
from airflow_provider_dpone.ledger import documents
from airflow_provider_dpone.ledger.reading import instance_sha256
from tests.support import ledger_records as make
from tests.support.ledger_records import SERVICE

#: In an order in which every foreign key finds what it names.
TABLES = (
    "[dpone_control].[composition_owners]",
    "[dpone_control].[composition_domains]",
    "[dpone_control].[composition_owner_domains]",
    "[dpone_control].[composition_operations]",
    "[dpone_control].[composition_operation_domains]",
    "[dpone_ext].[attempt_coordinates]",
    "[dpone_control].[composition_issued_authorities]",
    "[dpone_control].[composition_login_gates]",
    "[dpone_control].[composition_mssql_gate_evidence]",
    "[dpone_ext].[evidence]",
    "[dpone_control].[composition_proofs]",
)
_LONG_AGO = datetime.datetime(2026, 1, 1)
_PAIRS = 10
_LOOKED_AT: dict[Literal["CLOSED_GATES", "QUIESCENCE"], tuple[int, ...]] = {"CLOSED_GATES": (), "QUIESCENCE": (5,)}
_DATABASES = itertools.count(1)


@dataclass
class LongHistory:
    """Rows by table. ``owners`` retired activations took turns on ten pairs of databases; each had ``operations`` attempts."""

    owners: int
    operations: int
    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=lambda: {table: [] for table in TABLES})

    def __post_init__(self) -> None:
        pairs = [
            [make.domain(f"past {next(_DATABASES)}"), make.domain(f"past {next(_DATABASES)}")]
            for _ in range(min(_PAIRS, self.owners))
        ]
        epochs = [0] * len(pairs)
        for number in range(self.owners):
            place = number % len(pairs)
            epochs[place] += 1
            self._owner(pairs[place], epochs[place])
        for pair, epoch in zip(pairs, epochs, strict=True):
            for domain in pair:
                self._add("domains", (*domain, epoch, None))

    def plant(self, dsn: MsSqlDsn) -> None:
        with closing(connect_autocommit(dsn)) as connection, closing(connect(dsn)) as loading:
            for table, rows in self.rows.items():
                drain(connection, f"DISABLE TRIGGER ALL ON {table};")
                cursor: Any = loading.cursor()
                cursor.bulkcopy(table, rows, batch_size=5000, timeout=600, check_constraints=True)
                cursor.close()
                drain(connection, f"ENABLE TRIGGER ALL ON {table};")

    def _add(self, name: str, row: Sequence[Any]) -> None:
        schema = "dpone_ext" if name in ("attempt_coordinates", "evidence") else "dpone_control"
        prefix = "" if schema == "dpone_ext" else "composition_"
        self.rows[f"[{schema}].[{prefix}{name}]"].append(tuple(row))

    def _owner(self, pair: Sequence[tuple[str, str, str, str]], epoch: int) -> None:
        request = make.request(pair)
        key = request.owner_key
        self._add("owners", (key, "execution", request.activation_id, request.sha256, request.document(), "RETIRED"))
        for resource in request.resources:
            self._add("owner_domains", (key, resource.guard_id, resource.document(), epoch))
        for number in range(self.operations):
            where = make.coordinates(f"past__{request.activation_id}__{number}")
            workload = f"w{number % len(pair):03}"
            epochs = tuple((guard, epoch) for guard in request.guards_of(workload))
            attempt = make.attempt(request, workload, epochs, where)
            state: TerminalState = "FAILED" if number % 10 == 9 else "SUCCEEDED"
            self._operation(key, attempt, where, state)

    def _operation(self, owner: str, attempt: Attempt, where: Coordinates, state: TerminalState) -> None:
        key, principal = attempt.sha256, new_mssql_principal(SERVICE, "build")
        observed = {
            kind: GateObservation(
                attempt_sha256=key,
                service_id=SERVICE,
                login_sid=principal.sid.hex(),
                login_name=principal.name,
                kind=kind,
                database_ids=databases,
            )
            for kind, databases in _LOOKED_AT.items()
        }
        outcome = documents.encode({"schema": "test.outcome.v1", "state": state})
        proofs = [proof_for(attempt, [principal], kind, seen.sha256) for kind, seen in observed.items()]
        proofs.append(proof_for(attempt, [principal], "OUTCOME", sha256_text(outcome), state))
        ended = [proof.sha256 for proof in proofs]
        subject = attempt.activation_request_sha256
        self._add("operations", (key, "execution", owner, subject, key, attempt.document(), state, *ended))
        for guard, epoch in attempt.guard_epochs:
            self._add("operation_domains", (key, guard, owner, epoch))
        coordinates = (where.dag_id, where.run_id, where.task_id, attempt.workload_id, str(uuid.uuid4()), None)
        instance = instance_sha256(*where.instance)
        self._add("attempt_coordinates", (key, instance, where.try_number, where.map_index, *coordinates, _LONG_AGO))
        self._add("issued_authorities", (key, *principal.key, principal.name, principal.purpose))
        self._add("login_gates", (key, principal.sid, principal.name, "CLOSED", observed["CLOSED_GATES"].sha256))
        for kind, seen in observed.items():
            self._add("mssql_gate_evidence", (key, kind, seen.sha256, documents.encode(seen.members())))
        self._add("evidence", (key, 1, "outcome", sha256_text(outcome), outcome, _LONG_AGO))
        for proof in proofs:
            self._add("proofs", (key, proof.kind, proof.sha256, "execution", proof.document()))
