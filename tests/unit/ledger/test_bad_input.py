"""Bad input to the ledger's stores is refused by an error of the tree before a connection is opened.

Each argument of each public call is replaced by everything of ``NEVER`` in turn, with the others good. Texts that a
server could hold are no bad input, however hostile: they are parameters or quoted names, and go on to the server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from airflow_provider_dpone.contracts.errors import ConfigurationError, ControlUnavailable, GuardError
from airflow_provider_dpone.contracts.gate_profile import Engine
from airflow_provider_dpone.contracts.principal import new_clickhouse_principal
from airflow_provider_dpone.contracts.proof import proof_for
from airflow_provider_dpone.drivers import Connection
from airflow_provider_dpone.ledger import (
    ActivationStore,
    AttemptStore,
    ChargeStore,
    GateReceiptStore,
    LedgerSettings,
    LoginGateStore,
    RegistrationStore,
    SnapshotStore,
    TrustStore,
    grants,
    group_install,
    install,
)
from airflow_provider_dpone.ledger.enroll import (
    EnrolledDomain,
    MsSqlEnrollment,
    MsSqlIdentity,
    enroll,
    mssql_physical_subject_sha256,
    observe_mssql,
)
from tests.support import ledger_records as make
from tests.support import nonproduction as make_nonproduction
from tests.support.authority_rows import Rows
from tests.support.gate_receipts import receipt
from tests.support.ledger_records import CLICKHOUSE, SERVICE, sha
from tests.support.live_ledger import snapshot_of

NEVER: dict[str, Any] = {
    "nothing": None,
    "true": True,
    "float": 1.5,
    "bytes": b"x",
    "object": {},
    "list of nothing": [None],
    "tuple of bytes": (b"x",),
    "anything": object(),
    "lone surrogate": "a\ud800",
    "control": "a\x00b",
}
#: Texts that cannot be what the argument is, where it is a digest, a UUID or a name of a closed set.
WRONG_TEXT = {
    "empty": "",
    "upper case digest": "sha256:" + "A" * 64,
    "upper case uuid": SERVICE.upper(),
    "uuid in braces": "{" + SERVICE + "}",
    "cut digest": sha("x")[:-1],
    "hostile": "'; DROP TABLE x; --]",
    "too long": "x" * 3000,
}

SETTINGS = LedgerSettings(service_id=SERVICE)


class Unreachable(OSError):
    """Good input came as far as the server."""


def connect() -> Connection:
    raise Unreachable("nobody is there")


REQUEST = make.request([make.domain("a", "clickhouse"), make.domain("b", "clickhouse")])
WHERE = make.coordinates()
ATTEMPT = make.attempt(REQUEST, "w000", ((REQUEST.guards_of("w000")[0], 1),), WHERE)
PRINCIPALS = [new_clickhouse_principal(CLICKHOUSE, "ingest"), new_clickhouse_principal(CLICKHOUSE, "publish")]
KEY = ATTEMPT.sha256
CLOSED = proof_for(ATTEMPT, PRINCIPALS, "CLOSED_GATES", sha("evidence"))
DOCUMENT = {"schema": "x"}
AUTHORITY = Rows()
REVISION = AUTHORITY.append()
GRANT = make_nonproduction.qualification(REVISION.policy, CLICKHOUSE)
IDENTITY = MsSqlIdentity(
    database_name="dw", database_id=7, database_guid=CLICKHOUSE, create_token="2026-11-29T00:00:00"
)
ENROLLMENT = MsSqlEnrollment(identity=IDENTITY, writer_role="writer", managed_schemas=("raw",))
DOMAIN = EnrolledDomain(
    connector="mssql",
    service_id=SERVICE,
    physical_subject_sha256=IDENTITY.physical_subject_sha256,
    mssql=ENROLLMENT,
)
LOGINS = grants.StandingLogins(controller="c", issuer="i", closer="o")


@dataclass(frozen=True)
class Call:
    """A good call by the names of its arguments, what of NEVER is good for some, and which hold free text."""

    run: Callable[..., object]
    arguments: Mapping[str, Any]
    good: Mapping[str, tuple[str, ...]]
    texts: tuple[str, ...] = ()
    #: Answers without a server.
    pure: bool = False


def call(run: Callable[..., object], *, texts: str = "", pure: bool = False, **arguments: Any) -> Call:
    good = {name: value.good for name, value in arguments.items() if isinstance(value, _Or)}
    given = {name: value.value if isinstance(value, _Or) else value for name, value in arguments.items()}
    return Call(run, given, good, tuple(texts.split()), pure)


@dataclass(frozen=True)
class _Or:
    """An argument for which some of NEVER is good as well."""

    value: Any
    good: tuple[str, ...]


ACTIVATIONS = ActivationStore(connect, SETTINGS)
ATTEMPTS = AttemptStore(connect, SETTINGS)
GATES = LoginGateStore(connect, SETTINGS, role="closer")
SNAPSHOTS = SnapshotStore(connect, SETTINGS)
CHARGES = ChargeStore(connect, SETTINGS)
TRUST = TrustStore(connect, SETTINGS)
REGISTRATION = RegistrationStore(connect, SETTINGS)

CALLS: dict[str, Call] = {
    **{
        f"activations.{name}": call(getattr(ACTIVATIONS, name), request=REQUEST)
        for name in (
            "prepare",
            "activate",
            "withdraw",
            "begin_retirement",
            "finalize_retirement",
            "require_active",
        )
    },
    "activations.read": call(ACTIVATIONS.read, activation_id=REQUEST.activation_id),
    "attempts.admit_once": call(ATTEMPTS.admit_once, attempt=ATTEMPT, coordinates=WHERE, principals=PRINCIPALS),
    "attempts.read_exact": call(ATTEMPTS.read_exact, attempt=KEY),
    "attempts.find": call(
        ATTEMPTS.find, texts="dag_id run_id task_id", dag_id="d", run_id="r", task_id="t", map_index=-1
    ),
    "attempts.recent": call(
        ATTEMPTS.recent, texts="dag_id run_id task_id", limit=5, dag_id="d", run_id="r", task_id="t"
    ),
    "attempts.blockers": call(ATTEMPTS.blockers, guard_ids=[sha("guard")]),
    "attempts.put_evidence": call(
        ATTEMPTS.put_evidence, attempt=ATTEMPT, kind="kind", document=_Or(DOCUMENT, ("object",))
    ),
    "attempts.evidence": call(ATTEMPTS.evidence, attempt=KEY, kind="kind"),
    "attempts.evidence_history": call(ATTEMPTS.evidence_history, attempt=KEY),
    "attempts.put_proof": call(ATTEMPTS.put_proof, attempt=ATTEMPT, proof=CLOSED, evidence=[("kind", DOCUMENT)]),
    "attempts.proofs": call(ATTEMPTS.proofs, attempt=KEY),
    "attempts.finalize": call(
        ATTEMPTS.finalize,
        attempt=KEY,
        state="FAILED",
        outcome_proof_sha256=sha("x"),
        proofs=[CLOSED],
        evidence=[("kind", DOCUMENT)],
    ),
    "attempts.reconcile_unknown": call(
        ATTEMPTS.reconcile_unknown, attempt=KEY, state="FAILED", outcome_proof_sha256=sha("x")
    ),
    "gates.read": call(GATES.read, attempt=KEY),
    "gates.to_ready": call(GATES.to_ready, attempt=KEY, create=lambda cursor: None),
    "gates.to_closing": call(GATES.to_closing, attempt=KEY, barrier=_Or(lambda cursor: None, ("nothing",))),
    "gates.to_closed": call(GATES.to_closed, attempt=KEY, disable=lambda cursor: DOCUMENT),
    "gates.put_quiescence": call(GATES.put_quiescence, attempt=KEY, document=_Or(DOCUMENT, ("object",))),
    "gates.gate_evidence": call(GATES.gate_evidence, attempt=KEY, kind="QUIESCENCE"),
    "snapshots.put": call(SNAPSHOTS.put, record=snapshot_of(REQUEST, ATTEMPT, PRINCIPALS)),
    "snapshots.read": call(SNAPSHOTS.read, attempt=KEY),
    "snapshots.history": call(SNAPSHOTS.history, attempt=KEY),
    "charges.charge": call(
        CHARGES.charge,
        texts="workload_id",
        activation_id=REQUEST.activation_id,
        workload_id="w",
        bytes=1,
        ceiling=2,
        attempt=_Or(KEY, ("nothing",)),
    ),
    "charges.total": call(CHARGES.total, texts="workload_id", activation_id=REQUEST.activation_id, workload_id="w"),
    "receipts.record": call(
        GateReceiptStore(connect, SETTINGS).record,
        receipt=receipt(Engine(product_version="16.0", version_text="An emulation - 16")),
    ),
    "trust.append": call(TRUST.append, policy=REVISION.policy, trust_root=make_nonproduction.TRUST_ROOT, after=0),
    "trust.read": call(TRUST.read, environment_id=CLICKHOUSE),
    "trust.history": call(TRUST.history, environment_id=CLICKHOUSE),
    "registration.register": call(REGISTRATION.register, originals=make_nonproduction.originals(GRANT), under=REVISION),
    "registration.read": call(REGISTRATION.read, grant=GRANT),
    "enroll": call(enroll, connect=connect, settings=SETTINGS, domains=[DOMAIN]),
    "observe_mssql": call(observe_mssql, texts="database_name", connect=connect, database_name="dw"),
    "mssql_physical_subject_sha256": call(
        mssql_physical_subject_sha256, texts="create_token", pure=True, database_guid=CLICKHOUSE, create_token="now"
    ),
    "install.render": call(install.render, pure=True, settings=SETTINGS, authority="production"),
    "install.apply": call(install.apply, connect=connect, settings=SETTINGS, authority="production"),
    "install.audit": call(install.audit, connect=connect, settings=SETTINGS),
    "grants.script": call(grants.script, pure=True, settings=SETTINGS, logins=LOGINS),
    "group_install.render": call(group_install.render, pure=True, settings=SETTINGS, name="trust"),
    "group_install.apply": call(group_install.apply, connect=connect, settings=SETTINGS, name="trust"),
}


def asked(each: Call, arguments: Mapping[str, Any]) -> object:
    """The call, with an unreachable server as the one bare error that a good argument may lead to."""
    try:
        return each.run(**arguments)
    except Unreachable as err:
        raise ControlUnavailable("control_connect") from err


@pytest.mark.parametrize("name", CALLS)
def test_a_good_call_comes_as_far_as_the_server(name: str) -> None:
    each = CALLS[name]
    if each.pure:
        assert asked(each, each.arguments)
        return
    with pytest.raises(ControlUnavailable):
        asked(each, each.arguments)


@pytest.mark.parametrize(("name", "argument"), [(name, word) for name in CALLS for word in CALLS[name].arguments])
def test_a_bad_argument_is_refused_before_anything_is_opened(name: str, argument: str) -> None:
    each = CALLS[name]
    bad = {key: value for key, value in NEVER.items() if key not in each.good.get(argument, ())}
    if argument not in each.texts:
        bad |= WRONG_TEXT
    for value in bad.values():
        with pytest.raises(GuardError) as refused:
            asked(each, {**each.arguments, argument: value})
        assert not isinstance(refused.value, ControlUnavailable), value
        assert str(refused.value).startswith(refused.value.code)


@pytest.mark.parametrize(("name", "argument"), [(name, word) for name in CALLS for word in CALLS[name].texts])
def test_a_hostile_text_is_a_parameter_like_any_other(name: str, argument: str) -> None:
    each = CALLS[name]
    for value in ("'; DROP TABLE x; --]", 'a"b', "a%_[", "día\u202e 日本"):
        try:
            asked(each, {**each.arguments, argument: value})
        except ControlUnavailable:
            continue
        assert each.pure


@pytest.mark.parametrize(
    "member",
    ["service_id", "control_schema", "extension_schema", "trust_schema", "registration_schema", "lock_timeout_seconds"],
)
def test_settings_are_refused_by_their_member(member: str) -> None:
    for value in (*NEVER.values(), *WRONG_TEXT.values(), -1, 3601, "dpone_ext\n", "день"):
        with pytest.raises(ConfigurationError) as refused:
            replace(SETTINGS, **{member: value})  # type: ignore[arg-type]  # by name
        assert refused.value.reason in ("ledger_service_id", "ledger_schema", "ledger_lock_timeout")


@pytest.mark.parametrize("good", [DOMAIN, ENROLLMENT, IDENTITY, LOGINS], ids=lambda good: type(good).__name__)
def test_records_of_an_enrollment_and_of_accounts_are_refused_by_their_members(good: Any) -> None:
    optional = {("EnrolledDomain", "mssql"), ("StandingLogins", "others")}
    for member in (name for name in good.__slots__ if name != "guard_id"):
        for value in NEVER.values():
            if value is None and (type(good).__name__, member) in optional:
                continue
            with pytest.raises(GuardError):
                replace(good, **{member: value})
