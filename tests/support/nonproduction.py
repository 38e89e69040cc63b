"""Policies, grants and requests of an invented nonproduction campaign, and a ledger that can store them.

The documents are inert: no signature in them was made by anybody, and none is verified where they are stored.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from airflow_provider_dpone.contracts.activation import (
    ActivationRequest,
    OccurrenceContext,
    PhysicalResource,
    WorkloadAdmission,
)
from airflow_provider_dpone.contracts.canonical import sha256_text
from airflow_provider_dpone.contracts.nonproduction.grants import (
    ExecutionGrant,
    Grant,
    GrantedWorkload,
    QualificationGrant,
)
from airflow_provider_dpone.contracts.nonproduction.policy import SIGNER_BACKEND, AuthorityPolicy, Signer
from airflow_provider_dpone.contracts.nonproduction.registration import GrantOriginals
from airflow_provider_dpone.contracts.nonproduction.scope import (
    QUALIFIED_ROUTES,
    Limits,
    Participant,
    RouteDimensions,
    Scope,
)
from airflow_provider_dpone.contracts.ownership import guard_id
from airflow_provider_dpone.drivers import Connect, Secret, drain
from airflow_provider_dpone.drivers.sqlfiles import go_batches
from airflow_provider_dpone.ledger import group_install
from airflow_provider_dpone.ledger.campaigns import Registration
from airflow_provider_dpone.ledger.registration import RegistrationStore
from airflow_provider_dpone.ledger.trust import TrustRevision, TrustStore
from tests.support.ledger_records import CLICKHOUSE, SERVICE, sha
from tests.support.live_ledger import LiveLedger, connecting

NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
TRUST_ROOT = b'{"an":"inert trust root"}'
BUNDLE = b"an inert signature bundle"
_POSTGRES = "11111111-2222-4333-8444-555555555555"
_REPOSITORY = "https://github.com/o/r"


def limits(**bounds: int) -> Limits:
    values = {
        "max_validity_seconds": 3600,
        "max_workloads": 8,
        "max_attempts": 16,
        "max_source_rows": 1000,
        "max_source_bytes": 1_048_576,
        "max_attempt_seconds": 600,
    }
    return Limits(**(values | bounds))


def participants() -> tuple[Participant, ...]:
    services = (("clickhouse", CLICKHOUSE), ("mssql", SERVICE), ("postgres", _POSTGRES))
    return tuple(
        Participant(
            connector=connector,
            service_id=service,
            physical_subject_sha256=sha(f"participant {connector}"),
            read_relations=(sha(f"read {connector}"),),
            write_relations=(sha(f"write {connector}"),),
        )
        for connector, service in services
    )


def policy(environment_id: str, **changes: Any) -> AuthorityPolicy:
    values: dict[str, Any] = {
        "signer": Signer(
            backend=SIGNER_BACKEND,
            issuer="https://token.actions.githubusercontent.com",
            identity=f"{_REPOSITORY}/.github/workflows/w.yml@{'a' * 40}",
            trust_root_sha256=sha256_text(TRUST_ROOT),
        ),
        "environment_id": environment_id,
        "enrollment_sha256": sha("enrollment"),
        "participants": participants(),
        "source_repository": _REPOSITORY,
        "not_before": "2026-01-01T00:00:00Z",
        "expires_at": "2026-01-01T01:00:00Z",
        "revocation_epoch": 0,
        "revoked_grant_ids": (),
        "limits": limits(),
    }
    return AuthorityPolicy(**(values | changes))


def scope(of: AuthorityPolicy, campaign_id: str) -> Scope:
    digests = ("fixture", "generator", "compilation_intent", "toolchain", "image")
    return Scope(
        source_repository=_REPOSITORY,
        source_commit="b" * 40,
        campaign_id=campaign_id,
        environment_id=of.environment_id,
        policy_sha256=of.sha256,
        enrollment_sha256=of.enrollment_sha256,
        routes=tuple(
            RouteDimensions(
                source=source,
                sink=sink,
                strategy=strategy,
                transport="bcp_native" if source == "mssql" else "copy",
                schema_evolution="strict",
                airflow_runtime_mode="kubernetes",
            )
            for source, sink, strategy in QUALIFIED_ROUTES
        ),
        participants=of.participants,
        **{f"{name}_sha256": sha(name) for name in digests},
    )


def _common(of: AuthorityPolicy, campaign_id: str) -> dict[str, Any]:
    return {
        "scope": scope(of, campaign_id),
        "grant_id": str(uuid.uuid4()),
        "not_before": "2026-01-01T00:00:00Z",
        "expires_at": "2026-01-01T00:30:00Z",
        "revocation_epoch": of.revocation_epoch,
        "limits": limits(max_workloads=64),
    }


def qualification(of: AuthorityPolicy, campaign_id: str, **changes: Any) -> QualificationGrant:
    values = {
        **_common(of, campaign_id),
        "qualification_run_id": str(uuid.uuid4()),
        "fixture_plan_sha256": sha("fixture plan"),
        "qualification_plan_sha256": sha("qualification plan"),
    }
    return QualificationGrant(**(values | changes))


def workload(workload_id: str, **bounds: int) -> GrantedWorkload:
    return GrantedWorkload(
        workload_id=workload_id,
        constituent_id="standalone" if workload_id.startswith("s") else "native",
        pack_sha256=sha(f"pack {workload_id}"),
        limits=limits(**{"max_workloads": 64, **bounds}),
    )


def execution(
    of: AuthorityPolicy, campaign_id: str, workload_ids: tuple[str, ...] = ("n_one", "n_two", "s_three"), **changes: Any
) -> ExecutionGrant:
    values = {
        **_common(of, campaign_id),
        "qualified_set_sha256": sha("qualified set"),
        "native_release_id": sha("native release"),
        "parent_release_id": sha("parent release"),
        "deployment_id": sha("deployment"),
        "activation_id": str(uuid.uuid4()),
        "workloads": tuple(workload(each) for each in sorted(workload_ids)),
    }
    return ExecutionGrant(**(values | changes))


def request_of(grant: ExecutionGrant) -> ActivationRequest:
    """The activation that an execution grant is for: every workload writes one relation of one resource."""
    writes = {each.workload_id: sha(f"relation {each.workload_id}") for each in grant.workloads}
    subject = sha("a database")
    return ActivationRequest(
        context=OccurrenceContext(
            activation_id=grant.activation_id,
            environment="np",
            release_id=grant.parent_release_id,
            deployment_id=grant.deployment_id,
            previous_deployment_id=None,
            runtime_context_sha256=sha("runtime context"),
        ),
        source_subject_sha256=sha("sources"),
        workloads=tuple(
            WorkloadAdmission(
                workload_id=each.workload_id,
                constituent_id=each.constituent_id,
                pack_sha256=each.pack_sha256,
                execution_cell="sqlserver_dbt_v1",
                write_subjects=(writes[each.workload_id],),
            )
            for each in grant.workloads
        ),
        resources=(
            PhysicalResource(
                guard_id=guard_id(connector="mssql", service_id=SERVICE, physical_subject_sha256=subject),
                connector="mssql",
                service_id=SERVICE,
                physical_subject_sha256=subject,
                observation_sha256=sha("observation"),
                write_subjects=tuple(sorted(writes.values())),
            ),
        ),
        execution_grant_sha256=grant.sha256,
    )


def originals(grant: Grant, bundle: bytes = BUNDLE) -> GrantOriginals:
    return GrantOriginals(
        grant=grant,
        signature_bundle=bundle,
        request=request_of(grant) if isinstance(grant, ExecutionGrant) else None,
    )


@dataclass
class Authority:
    """One environment with one campaign in a ledger that has both groups."""

    ledger: LiveLedger
    environment_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    campaign_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    clock: Callable[[], datetime] = lambda: NOW

    def trust(self, connect: Connect | None = None) -> TrustStore:
        return TrustStore(connect or self.ledger.connect, self.ledger.settings)

    def store(self, connect: Connect | None = None) -> RegistrationStore:
        return RegistrationStore(connect or self.ledger.connect, self.ledger.settings, clock=self.clock)

    def append(self, after: int = 0, connect: Connect | None = None, **changes: Any) -> TrustRevision:
        return self.trust(connect).append(policy(self.environment_id, **changes), TRUST_ROOT, after=after)

    def qualification(self, under: TrustRevision, **changes: Any) -> QualificationGrant:
        return qualification(under.policy, self.campaign_id, **changes)

    def execution(self, under: TrustRevision, *workload_ids: str, **changes: Any) -> ExecutionGrant:
        if workload_ids:
            return execution(under.policy, self.campaign_id, workload_ids, **changes)
        return execution(under.policy, self.campaign_id, **changes)

    def register(
        self, grant: Grant, under: TrustRevision, bundle: bytes = BUNDLE, connect: Connect | None = None
    ) -> Registration:
        return self.store(connect).register(originals(grant, bundle), under=under)

    def policies(self) -> list[tuple[Any, ...]]:
        """Every stored byte of the environment's trust."""
        return self.ledger.rows(
            "SELECT revision, policy_sha256, policy_document, trust_root_sha256, trust_root_document, revocation_epoch "
            "FROM dpone_trust.policy_revisions WHERE environment_id = ? ORDER BY revision",
            self.environment_id,
        )

    def grants(self) -> list[tuple[Any, ...]]:
        return self.ledger.rows(
            "SELECT consumption_subject_sha256, registration_id, grant_sha256, bundle_sha256, request_sha256, "
            "trust_revision FROM dpone_registration.grants WHERE environment_id = ? ORDER BY registration_order",
            self.environment_id,
        )

    def members(self) -> list[tuple[Any, ...]]:
        return self.ledger.rows(
            "SELECT workload_sha256, workload_document, first_consumption_subject_sha256 "
            "FROM dpone_registration.memberships WHERE environment_id = ? ORDER BY workload_sha256",
            self.environment_id,
        )

    def state(self) -> tuple[list[tuple[Any, ...]], ...]:
        return (self.policies(), self.grants(), self.members())

    @contextmanager
    def changed(self, change: str, restore: str, *values: Any) -> Iterator[None]:
        """A tampering of a test's own, taken back at the end."""
        self.ledger.rows(change, *values)
        try:
            yield
        finally:
            self.ledger.rows(restore)


def open_authority(ledger: LiveLedger) -> LiveLedger:
    """Both groups, installed into a ledger."""
    for name in ("trust", "registration"):
        group_install.apply(ledger.connect, ledger.settings, name)
    return ledger


#: A session that holds the control lock and has the options that the triggers ask for. Carries no parameters.
LOCKED = (
    "SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS, ARITHABORT, CONCAT_NULL_YIELDS_NULL, QUOTED_IDENTIFIER ON; "
    "SET NUMERIC_ROUNDABORT OFF; SET XACT_ABORT ON; BEGIN TRANSACTION; DECLARE @locked int; "
    "EXEC @locked = sys.sp_getapplock @Resource = N'dpone:composition-control:v1', @LockMode = N'Exclusive', "
    "@LockOwner = N'Transaction', @LockTimeout = 5000; "
)


def under_the_lock(statement: str) -> str:
    """The statement in a transaction that holds the control lock exclusively: only a trigger can refuse it."""
    return f"{LOCKED}{statement}; COMMIT TRANSACTION;"


def standing_login(ledger: LiveLedger, role: str) -> tuple[str, LiveLedger]:
    """A new login that has what the role needs and nothing else, and the ledger through it."""
    name, password = f"{role} {secrets.token_hex(4)}", secrets.token_urlsafe(24) + "aA1!"
    connection = ledger.connect()
    try:
        connection.setautocommit(True)  # type: ignore[attr-defined]  # mssql-python's connection
        drain(connection, f"CREATE LOGIN [{name}] WITH PASSWORD = N'{password}', CHECK_POLICY = OFF")
        for batch in go_batches(group_install.role_grants(ledger.settings, role, name)):
            drain(connection, batch)
    finally:
        connection.close()
    return name, ledger.through(connecting(ledger.dsn.for_login(name, Secret(password))))


def literal(value: object) -> str:
    """A value of a test's own direct write, which carries no parameters."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    return str(value) if isinstance(value, int) else f"'{value}'"
