"""What was observed of a SQL Server login gate: closed, and later quiet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from airflow_provider_dpone.contracts import canonical, rules

SCHEMA = "dpone.composition-mssql-gate-observation.v1"

_SID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GateObservation:
    """``sessions`` and ``transactions`` are 0 by meaning: a quiescence observation with anything left is none.

    ``authentication_barrier`` is the state of the gate row while the login was observed disabled.
    """

    attempt_sha256: str
    service_id: str
    login_sid: str
    login_name: str
    kind: Literal["CLOSED_GATES", "QUIESCENCE"]
    login_disabled: bool = True
    authentication_barrier: Literal["CLOSING", "CLOSED"] = "CLOSING"
    database_ids: tuple[int, ...] = ()
    sessions: int = 0
    transactions: int = 0

    def __post_init__(self) -> None:
        rules.digest(self.attempt_sha256)
        rules.uuid_text(self.service_id, "protected_service_id")
        rules.identity_text(self.login_name, "login_name", limit=128)
        if type(self.login_sid) is not str or not _SID.fullmatch(self.login_sid):
            rules.refuse("login_sid")
        rules.one_of(self.kind, ("CLOSED_GATES", "QUIESCENCE"), "gate_observation")
        rules.one_of(self.authentication_barrier, ("CLOSING", "CLOSED"), "gate_observation")
        if self.login_disabled is not True or type(self.database_ids) is not tuple:
            rules.refuse("gate_observation")
        for number in (self.sessions, self.transactions):
            rules.whole_number(number, "gate_observation", at_least=0, at_most=0)
        for database_id in self.database_ids:
            rules.whole_number(database_id, "gate_observation", at_least=1)
        rules.ascending(self.database_ids, "gate_observation")
        if (self.kind == "QUIESCENCE") != bool(self.database_ids):
            rules.refuse("gate_observation")

    @property
    def sha256(self) -> str:
        return canonical.fingerprint_sha256(self.members())

    def members(self) -> dict[str, object]:
        body: dict[str, object] = {
            "schema": SCHEMA,
            "attempt_sha256": self.attempt_sha256,
            "service_id": self.service_id,
            "login_sid": self.login_sid,
            "login_name": self.login_name,
            "kind": self.kind,
            "login_disabled": self.login_disabled,
            "authentication_barrier": self.authentication_barrier,
        }
        if self.kind == "QUIESCENCE":
            body |= {
                "database_ids": list(self.database_ids),
                "sessions": self.sessions,
                "transactions": self.transactions,
            }
        return body

    def document(self) -> bytes:
        return canonical.exact_bytes(self.members())


@rules.shaped("gate_observation")
def gate_observation_from(body: Mapping[str, Any]) -> GateObservation:
    """Rebuild the typed record from decoded members."""
    values = dict(body)
    if values.pop("schema", None) != SCHEMA:
        rules.refuse("gate_observation")
    if "database_ids" in values:
        values["database_ids"] = rules.array(values["database_ids"], "gate_observation")
    return GateObservation(**values)
