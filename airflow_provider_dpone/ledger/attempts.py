"""Operations of the execution family: admitted once, proven, ended, and read by anybody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.attempt import Attempt
from airflow_provider_dpone.contracts.errors import AdmissionRefused, ConfigurationError, Duplicate, LedgerTampered
from airflow_provider_dpone.contracts.operation import Operation
from airflow_provider_dpone.contracts.principal import Coordinates, Principal
from airflow_provider_dpone.contracts.proof import OUTCOME_STATES, AttemptProof, TerminalState
from airflow_provider_dpone.contracts.rules import INT_MAX, digest, one_of, record, whole_number
from airflow_provider_dpone.drivers import Connect
from airflow_provider_dpone.ledger import admission, completion, documents, history
from airflow_provider_dpone.ledger.arguments import sequence, text
from airflow_provider_dpone.ledger.questions import Question, Results
from airflow_provider_dpone.ledger.reading import (
    instance_sha256,
    operation_from,
    the_evidence,
    the_newest,
    the_operation,
    the_operations,
)
from airflow_provider_dpone.ledger.records import Blocker, Evidence, operation_key
from airflow_provider_dpone.ledger.settings import LedgerSettings
from airflow_provider_dpone.ledger.transaction import ControlLedger, ControlTransaction, Part


class AttemptStore:
    """Every attempt of the ledger. An attempt is given as the record or as its digest text."""

    def __init__(self, connect: Connect, settings: LedgerSettings) -> None:
        self._ledger = ControlLedger(connect, settings)

    def admit_once(self, attempt: Attempt, coordinates: Coordinates, principals: Sequence[Principal]) -> Operation:
        """Admit one try and journal its random principals, in one transaction; return the row as read back.

        Whoever gets the operation back executes it: a twin of the same try finds principals that are not its own and
        gets Duplicate. Refusals are typed: ParentNotActive, Duplicate (``same_try``, ``late_try``, ``run_id_reused``),
        StaleEpoch, Overlap with its blockers, AdmissionRefused. No work before this has returned.
        """
        admission.require_well_formed(attempt, coordinates, principals)
        self._require_this_instance(principals)
        key = attempt.sha256
        own = frozenset(principals)

        def work(transaction: ControlTransaction) -> None:
            guards: list[Part] = [("add_guard", [guard]) for guard in attempt.guard_ids]
            instance = instance_sha256(*coordinates.instance)
            question = [attempt.activation_request_sha256, instance, attempt.workload_id]
            results = transaction.run(("begin_guards", []), *guards, ("admission_state", question), ("history", []))
            history.verify(results[5:])
            owner, domains, blockers, tries, dags = results[:5]
            state = admission.AdmissionState(owner=owner, domains=domains, blockers=blockers, tries=tries, dags=dags)
            owner_key = admission.decide(attempt, coordinates, state)
            transaction.write(*_admission_parts(attempt, coordinates, principals, owner_key, instance))

        def not_of_a_twin(operation: Operation | None) -> Operation | None:
            if operation is not None and frozenset(operation.principals) != own:
                raise Duplicate("same_try", happened=f"a twin of this try was admitted as {key}.")
            return operation

        return self._ledger.mutate("admit_once", work, the_operation(key).then(not_of_a_twin))

    def read_exact(self, attempt: Attempt | str) -> Operation | None:
        """The operation of an attempt, every byte verified. It authorizes nobody to execute."""
        return self._ledger.read(the_operation(operation_key(attempt)))

    def find(self, dag_id: str, run_id: str, task_id: str, map_index: int) -> tuple[Operation, ...]:
        """Every try of one task instance, by try number."""
        for name in (dag_id, run_id, task_id):
            text(name, "a name of the task instance")
        whole_number(map_index, "scheduler_attempt", at_least=-1, at_most=INT_MAX)
        instance = instance_sha256(dag_id, run_id, task_id, map_index)
        return self._ledger.read(the_operations(("operations_by_instance", [instance])))

    def unresolved(self) -> tuple[Operation, ...]:
        """Every RUNNING or COMMIT_UNKNOWN operation: what a sweep and an operator look at."""
        return self._ledger.read(the_operations(("operations_unresolved", [])))

    def recent(
        self, limit: int = 200, *, dag_id: str = "", run_id: str = "", task_id: str = "", unresolved: bool = False
    ) -> tuple[Operation, ...]:
        """The operations that were admitted last, the newest first, at most ``limit``; of one DAG, run or task if given.

        With ``unresolved`` only those that are RUNNING or COMMIT_UNKNOWN.
        """
        if type(limit) is not int or not 1 <= limit <= 10_000:
            raise ConfigurationError("limit", happened="limit is not a whole number between 1 and 10000.")
        names = [text(name, "a name that is looked for") for name in (dag_id, run_id, task_id)]
        selection: Part = ("operations_recent", [limit, *names, int(unresolved)])
        return self._ledger.read(the_newest(selection))

    def blockers(self, guard_ids: Sequence[str]) -> tuple[Blocker, ...]:
        """Unresolved operations of any family on these guards. A dry look: only admission decides."""
        wanted = sequence(guard_ids, str, "guards")
        guards: list[Part] = [("add_guard", [digest(guard)]) for guard in sorted(set(wanted))]

        def named(results: Results) -> tuple[Blocker, ...]:
            [rows] = results
            return tuple(
                Blocker(operation_key=key, operation_family=family, state=state, owner_id=owner, guard_id=guard)
                for key, family, state, owner, guard in rows
            )

        return self._ledger.read(Question((("begin_guards", []), *guards, ("blockers", [])), named))

    def put_evidence(self, attempt: Attempt | str, kind: str, document: Mapping[str, object]) -> str:
        """Store an evidence document and return its digest. The same content of the same kind is stored once."""
        key = operation_key(attempt)
        given = _EvidenceRow.of(kind, document)
        stored = given.is_stored(key)

        def work(transaction: ControlTransaction) -> str | None:
            if stored(transaction):
                return given.sha256
            transaction.write(("declare_evidence", [key]), ("insert_evidence", [given.kind, given.sha256, given.data]))
            return None

        readback = stored.then(lambda there: given.sha256 if there else None)
        return self._ledger.mutate("put_evidence", work, readback)

    def evidence(self, attempt: Attempt | str, kind: str) -> Mapping[str, Any] | None:
        """The newest evidence document of a kind."""
        key = operation_key(attempt)
        documents.require_kind(kind)

        def decoded(results: Results) -> Mapping[str, Any] | None:
            [rows] = results
            return documents.decode(rows[0][1], rows[0][0]) if rows else None

        return self._ledger.read(Question((("evidence_newest", [key, kind]),), decoded))

    def evidence_history(self, attempt: Attempt | str) -> tuple[Evidence, ...]:
        """Every evidence document of an attempt in the order in which it was recorded."""
        return self._ledger.read(the_evidence(operation_key(attempt)))

    def put_proof(
        self,
        attempt: Attempt | str,
        proof: AttemptProof,
        *,
        evidence: Sequence[tuple[str, Mapping[str, object]]] = (),
    ) -> str:
        """Store a proof and return the digest of the one that is kept, which may be an earlier one that says the same.

        The evidence that it names is stored already, or is among the (kind, document) pairs that are stored with it in
        the same transaction. QUIESCENCE needs CLOSED_GATES, and OUTCOME needs both.
        """
        key = operation_key(attempt)
        record(proof, AttemptProof, "proof")
        given = _EvidenceRow.all_of(evidence)

        def work(transaction: ControlTransaction) -> str | None:
            *rows, stored = transaction.run(("operation_by_key", [key]), ("evidence_digests", []))
            operation = _required(operation_from(rows), key)
            known = {sha256 for (sha256,) in stored} | {row.sha256 for row in given}
            kept = completion.kept_proof(operation, proof, known)
            if kept is not None:
                return kept
            transaction.write(*_proof_parts(key, given, [proof]))
            return None

        readback = _there(key).then(lambda operation: proof.sha256 if proof in operation.proofs else None)
        return self._ledger.mutate("put_proof", work, readback)

    def proofs(self, attempt: Attempt | str) -> tuple[AttemptProof, ...]:
        """Every stored proof of an attempt, in the order of its life."""
        operation = self.read_exact(attempt)
        return () if operation is None else operation.proofs

    def finalize(
        self,
        attempt: Attempt | str,
        *,
        state: TerminalState,
        outcome_proof_sha256: str,
        proofs: Sequence[AttemptProof] = (),
        evidence: Sequence[tuple[str, Mapping[str, object]]] = (),
    ) -> Operation:
        """End a RUNNING operation with the stored triplet whose outcome proof has this digest and says this state.

        ``proofs`` in the order of a life, and (kind, document) pairs of evidence, are stored before it ends, in the same
        transaction, each under the rules of ``put_proof``. Refused (``proof_kept``), with nothing stored, when the
        ledger keeps an earlier proof instead of one of them.
        """
        key = operation_key(attempt)
        one_of(state, OUTCOME_STATES, "operation_transition")
        digest(outcome_proof_sha256)
        sequence(proofs, AttemptProof, "proofs")
        given = _EvidenceRow.all_of(evidence)

        def work(transaction: ControlTransaction) -> Operation | None:
            *rows, stored = transaction.run(("operation_by_key", [key]), ("evidence_digests", []))
            there = {sha256 for (sha256,) in stored}
            operation = completion.require_evidence(_required(operation_from(rows), key), there)
            if (operation.state, operation.outcome_proof_sha256) == (state, outcome_proof_sha256):
                return operation
            known = there | {row.sha256 for row in given}
            proven, new = completion.proven(operation, proofs, known)
            triplet = completion.ending(proven, state, outcome_proof_sha256, reconciling=False)
            assert triplet is not None, "an operation that has not ended is not where it should end"
            ending: Part = ("end_operation", [operation.state, state, *triplet])
            transaction.write(*_proof_parts(key, given, new), ending)
            return None

        return self._ledger.mutate("finalize", work, _ended(key, state, outcome_proof_sha256))

    def reconcile_unknown(
        self, attempt: Attempt | str, *, state: TerminalState, outcome_proof_sha256: str
    ) -> Operation:
        """Resolve a COMMIT_UNKNOWN operation with a newly stored outcome proof of SUCCEEDED or FAILED."""
        if one_of(state, OUTCOME_STATES, "operation_transition") == "COMMIT_UNKNOWN":
            raise AdmissionRefused("operation_transition", happened="a reconciliation ends in SUCCEEDED or FAILED.")
        key = operation_key(attempt)
        digest(outcome_proof_sha256)

        def work(transaction: ControlTransaction) -> Operation | None:
            *rows, stored = transaction.run(("operation_by_key", [key]), ("evidence_digests", []))
            operation = _required(operation_from(rows), key)
            completion.require_evidence(operation, {sha256 for (sha256,) in stored})
            triplet = completion.ending(operation, state, outcome_proof_sha256, reconciling=True)
            if triplet is None:
                return operation
            ending: Part = ("end_operation", [operation.state, state, *triplet])
            transaction.write(("declare_evidence", [key]), ending)
            return None

        return self._ledger.mutate("reconcile_unknown", work, _ended(key, state, outcome_proof_sha256))

    def _require_this_instance(self, principals: Sequence[Principal]) -> None:
        """Design 10.8: the ledger lives on the instance whose logins it guards."""
        for principal in principals:
            if principal.connector == "mssql" and principal.service_id != self._ledger.settings.service_id:
                raise ConfigurationError(
                    "mssql_service",
                    happened="a SQL Server principal belongs to another instance than the ledger.",
                    not_done="nothing was admitted.",
                    check="the target's server: only databases of the ledger's own instance can be guarded.",
                )


@dataclass(frozen=True, slots=True)
class _EvidenceRow:
    """One evidence document as it is stored."""

    kind: str
    sha256: str
    data: bytes

    @classmethod
    def of(cls, kind: str, document: Mapping[str, object]) -> _EvidenceRow:
        data = documents.encode(document)
        return cls(documents.require_kind(kind), canonical.sha256_text(data), data)

    @classmethod
    def all_of(cls, evidence: Sequence[tuple[str, Mapping[str, object]]]) -> list[_EvidenceRow]:
        pairs = sequence(evidence, tuple, "evidence_document")
        if any(len(pair) != 2 for pair in pairs):
            raise ConfigurationError("evidence_document", happened="evidence is given as pairs of kind and document.")
        return [cls.of(*pair) for pair in pairs]

    def is_stored(self, key: str) -> Question[bool]:
        """Whether exactly these bytes are there. Refuses an unknown operation, and other bytes under this digest."""

        def exactly(results: Results) -> bool:
            operation, found = results
            if not operation:
                raise _absent(key)
            if found and found != [(self.data,)]:
                raise LedgerTampered("evidence", happened=f"evidence {self.sha256} of {key} is not what was stored.")
            return bool(found)

        return Question((("evidence_exact", [key, self.kind, self.sha256]),), exactly)


def _there(key: str) -> Question[Operation]:
    return the_operation(key).then(lambda operation: _required(operation, key))


def _ended(key: str, state: TerminalState, outcome_proof_sha256: str) -> Question[Operation | None]:
    def reached(operation: Operation) -> Operation | None:
        there = (operation.state, operation.outcome_proof_sha256) == (state, outcome_proof_sha256)
        return operation if there else None

    return _there(key).then(reached)


def _proof_parts(key: str, evidence: Sequence[_EvidenceRow], proofs: Sequence[AttemptProof]) -> list[Part]:
    parts: list[Part] = [("declare_evidence", [key])]
    parts += [("insert_evidence", [row.kind, row.sha256, row.data]) for row in evidence]
    parts += [("insert_proof", [key, proof.kind, proof.sha256, proof.document()]) for proof in proofs]
    return parts


def _required(operation: Operation | None, key: str) -> Operation:
    if operation is None:
        raise _absent(key)
    return operation


def _absent(key: str) -> AdmissionRefused:
    return AdmissionRefused("operation_absent", happened=f"the ledger has no execution operation {key}.")


def _admission_parts(
    attempt: Attempt, coordinates: Coordinates, principals: Sequence[Principal], owner_key: str, instance: str
) -> list[Part]:
    key = attempt.sha256
    row: list[Any] = [key, owner_key, attempt.activation_request_sha256, attempt.document(), instance]
    row += [coordinates.try_number, coordinates.map_index, coordinates.dag_id, coordinates.run_id, coordinates.task_id]
    row += [attempt.workload_id, coordinates.task_instance_id, coordinates.mapped_input_sha256 or ""]
    parts: list[Part] = [("insert_operation", row)]
    parts += [("insert_operation_domain", [guard, epoch]) for guard, epoch in attempt.guard_epochs]
    for principal in principals:
        parts.append(("insert_principal", [*principal.key, principal.name, principal.purpose]))
        if principal.connector == "mssql":
            parts.append(("insert_login_gate", [principal.sid, principal.name]))
    return parts
