"""The control ledger, read with queries of our own: every attempt, whether its proofs are complete, and their bytes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from dpone_reconcile.engines import Postgres, SqlServer

_ATTEMPTS = """
SELECT c.workload_id, c.dag_id, c.run_id, c.task_id, c.try_number, c.map_index, o.operation_key, o.state,
       o.operation_document, o.closed_gates_proof_sha256, o.quiescence_proof_sha256, o.outcome_proof_sha256,
       w.owner_id, w.state, g.gate_state, g.login_sid
FROM dpone_control.composition_operations AS o
INNER JOIN dpone_control.composition_owners AS w ON w.owner_key = o.owner_key
INNER JOIN dpone_ext.attempt_coordinates AS c ON c.operation_key = o.operation_key
LEFT JOIN dpone_control.composition_login_gates AS g ON g.operation_key = o.operation_key
ORDER BY c.admitted_at, c.workload_id, c.try_number
"""
_PRINCIPALS = """
SELECT operation_key, connector, principal_name, purpose FROM dpone_control.composition_issued_authorities
ORDER BY operation_key, purpose
"""
_PROOFS = "SELECT operation_key, proof_kind, proof_sha256, proof_document FROM dpone_control.composition_proofs"
_EVIDENCE = """
SELECT operation_key, evidence_kind, evidence_sha256, evidence_document FROM dpone_ext.evidence
ORDER BY operation_key, recorded_order
"""
_GATE_EVIDENCE = """
SELECT operation_key, evidence_kind, evidence_sha256, evidence_document
FROM dpone_control.composition_mssql_gate_evidence
"""
_ENABLED_LOGINS = "SELECT name FROM sys.server_principals WHERE LEFT(name, 8) = 'dpone_a_' AND is_disabled = 0"
_SESSIONS = (
    "SELECT session_id, original_login_name FROM sys.dm_exec_sessions WHERE LEFT(original_login_name, 8) = 'dpone_a_'"
)

_ROLES = """
SELECT r.rolname, CASE WHEN r.rolcanlogin THEN 'can log in' WHEN r.rolvaliduntil > now() THEN 'has not expired' END, false
FROM pg_roles AS r WHERE left(r.rolname, 8) = 'dpone_a_'
UNION ALL
SELECT r.rolname, 'is a member of ' || m.roleid::regrole::text, false
FROM pg_auth_members AS m INNER JOIN pg_roles AS r ON r.oid = m.member WHERE left(r.rolname, 8) = 'dpone_a_'
UNION ALL
SELECT usename, 'is open', true FROM pg_stat_activity WHERE left(usename, 8) = 'dpone_a_'
ORDER BY 3 DESC, 1, 2
"""


@dataclass(slots=True)
class AttemptRow:
    """One attempt as the table shows it."""

    workload_id: str
    dag_id: str
    run_id: str
    task_id: str
    try_number: int
    map_index: int
    operation_key: str
    state: str
    activation_id: str
    owner_state: str
    guard_epochs: dict[str, int]
    gate: str
    principals: list[str]
    proofs: dict[str, dict[str, Any]]
    evidence: dict[str, dict[str, Any]]
    problems: list[str]

    @property
    def epochs(self) -> list[int]:
        return list(self.guard_epochs.values())

    @property
    def writes_sql_server(self) -> bool:
        return any(each.startswith("mssql ") for each in self.principals)

    @property
    def loads(self) -> bool:
        """Whether it carries rows into SQL Server, as a dbt build does not."""
        return any(each.startswith("mssql ingest ") for each in self.principals)

    @property
    def publishes(self) -> bool:
        return any(each.startswith("clickhouse ") for each in self.principals)

    @property
    def quiescent(self) -> bool:
        return "QUIESCENCE" in self.proofs

    @property
    def rows(self) -> int | None:
        """As observed; for a dbt build, whose outcome counts no rows, as the worker reported them."""
        observed = _find_number(self.evidence.get("outcome"), "rows")
        return observed if observed is not None else _find_number(self.evidence.get("report"), "rows")

    @property
    def bytes(self) -> int | None:
        """As the worker reported them; a dbt build moves none through this machine."""
        return None if not self.loads and not self.publishes else _find_number(self.evidence.get("report"), "bytes")

    @property
    def wire_bytes(self) -> int:
        """What a publication sent, as the worker reported it."""
        report = self.evidence.get("report") or {}
        return _find_number(report.get("details"), "wire_bytes") or 0


def read_attempts(server: SqlServer) -> list[AttemptRow]:
    """Every attempt of the ledger, with everything that does not fit together named in `problems`."""
    attempts: dict[str, AttemptRow] = {}
    bound: dict[str, dict[str, str]] = {}
    for row in server.rows(_ATTEMPTS):
        key, document = str(row[6]), json.loads(bytes(row[8]))
        attempt = AttemptRow(
            *(str(row[0]), str(row[1]), str(row[2]), str(row[3]), int(row[4]), int(row[5]), key, str(row[7])),
            activation_id=str(row[12]),
            owner_state=str(row[13]),
            guard_epochs=dict(document["guard_epochs"]),
            gate=str(row[14]) if row[14] is not None else "",
            principals=[],
            proofs={},
            evidence={},
            problems=[],
        )
        coordinates = (document["dag_run_id"], document["task_id"], document["try_number"], document["map_index"])
        if coordinates != (attempt.run_id, attempt.task_id, attempt.try_number, attempt.map_index):
            attempt.problems.append("the attempt document names other coordinates")
        if digest(document) != key:
            attempt.problems.append("the attempt document has another digest")
        attempts[key] = attempt
        bound[key] = dict(zip(("CLOSED_GATES", "QUIESCENCE", "OUTCOME"), map(str, row[9:12]), strict=True))
    for key, connector, name, purpose in server.rows(_PRINCIPALS):
        attempts[str(key)].principals.append(f"{connector} {purpose} …{str(name)[-6:]}")
    documents = _documents(server, attempts)
    for key, kind, sha256, raw in server.rows(_PROOFS):
        attempt, proof = attempts[str(key)], json.loads(bytes(raw))
        if digest(proof) != sha256 or proof["attempt_sha256"] != key or proof["kind"] != kind:
            attempt.problems.append(f"the {kind} proof does not bind this attempt")
        if proof["evidence_sha256"] not in documents.get(str(key), set()):
            attempt.problems.append(f"the evidence of the {kind} proof is not stored")
        if len(proof["authorities"]) != sum(not each.startswith("postgres ") for each in attempt.principals):
            attempt.problems.append(f"the {kind} proof does not cover every principal")
        if sha256 == bound[str(key)][str(kind)]:
            attempt.proofs[str(kind)] = proof
    for attempt in attempts.values():
        _judge(attempt)
    return list(attempts.values())


def writers_left(server: SqlServer) -> list[str]:
    """Attempt logins that are enabled, and sessions that an attempt login opened: there must be none."""
    enabled = [f"the login {name} is enabled" for (name,) in server.rows(_ENABLED_LOGINS)]
    return enabled + [f"session {session} of {name} is open" for session, name in server.rows(_SESSIONS)]


def roles_left(server: Postgres) -> list[str]:
    """Attempt roles of the source that can log in, belong to something or have a session: there must be none."""
    rows = list(server.rows(_ROLES))
    left = [
        f"{'a session of ' if session else ''}the role {name} {what}"
        for name, what, session in rows
        if what is not None
    ]
    return left if rows else ["no role of an attempt was ever made"]


def digest(document: Any) -> str:
    """The fingerprint digest of a stored document, computed here from the wire format's description."""
    text = json.dumps(_fold(document), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _documents(server: SqlServer, attempts: dict[str, AttemptRow]) -> dict[str, set[str]]:
    stored: dict[str, set[str]] = {}
    for query in (_EVIDENCE, _GATE_EVIDENCE):
        for key, kind, sha256, raw in server.rows(query):
            if "sha256:" + hashlib.sha256(bytes(raw)).hexdigest() != sha256:
                attempts[str(key)].problems.append(f"the {kind} evidence has another digest")
            stored.setdefault(str(key), set()).add(str(sha256))
            attempts[str(key)].evidence[str(kind)] = json.loads(bytes(raw))
    return stored


def _judge(attempt: AttemptRow) -> None:
    if attempt.state not in ("SUCCEEDED", "FAILED"):
        attempt.problems.append(f"it ended {attempt.state}")
    missing = sorted({"CLOSED_GATES", "QUIESCENCE", "OUTCOME"} - set(attempt.proofs))
    if missing:
        attempt.problems.append(f"proofs are missing: {', '.join(missing)}")
    elif attempt.proofs["OUTCOME"]["outcome_state"] != attempt.state:
        attempt.problems.append("the outcome proof says something else than the state")
    if not attempt.gate and "CLOSED_GATES" in attempt.proofs:
        # ClickHouse users and PostgreSQL roles have no row of their own: the proof says that they are closed.
        attempt.gate = "CLOSED"
    if attempt.gate != "CLOSED":
        attempt.problems.append(f"its gate is {attempt.gate or 'open'}")


def _fold(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\\", "/")
    if isinstance(value, dict):
        return {key: _fold(member) for key, member in value.items()}
    if isinstance(value, list):
        items = [_fold(item) for item in value]
        if items and all(isinstance(item, dict) and isinstance(item.get("id"), str) for item in items):
            items.sort(key=lambda item: str(item["id"]))
        return items
    return value


def _find_number(document: dict[str, Any] | None, name: str) -> int | None:
    value = (document or {}).get(name)
    return value if isinstance(value, int) else None
