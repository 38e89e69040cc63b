"""Bad input to the contracts is refused by an error of the tree, whatever is wrong with it, and never by a bare one.

Every public record has each of its members replaced, and every public function each of its arguments, by everything of
``BAD``: other types, malformed digests and UUIDs, texts that are too long or that no server could store. What is not
refused has to be usable to its end. ``canonical`` stands apart: its errors are named by the vectors.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_dpone import contracts
from airflow_provider_dpone.contracts import (
    activation,
    attempt,
    canonical,
    gate_evidence,
    gate_profile,
    lifecycle,
    ownership,
    principal,
    proof,
    qualification,
    snapshot,
)
from airflow_provider_dpone.contracts.errors import GuardError
from airflow_provider_dpone.contracts.nonproduction import (
    fixtures,
    grants,
    plans,
    policy,
    registration,
    scope,
)
from tests.support import ledger_records as make
from tests.support import nonproduction as make_nonproduction
from tests.support.gate_receipts import receipt
from tests.support.live_ledger import decided_of, snapshot_of
from tests.support.seed_plans import PLAN, SEAL

DATA = json.loads((Path(__file__).parents[2] / "data" / "digests.json").read_text(encoding="utf-8"))

BAD: dict[str, Any] = {
    "nothing": None,
    "true": True,
    "negative": -1,
    "beyond bigint": 2**63,
    "float": 1.5,
    "not a number": float("nan"),
    "empty": "",
    "blank": "x ",
    "upper case digest": "sha256:" + "A" * 64,
    "digest with a line feed": "sha256:" + "a" * 64 + "\n",
    "upper case uuid": make.SERVICE.upper(),
    "uuid in braces": "{" + make.SERVICE + "}",
    "too long": "x" * 513,
    "control": "a\x00b",
    "surrogate": "a\ud800",
    "other digits": "\u0661\u0662",
    "backslash": "a\\b",
    "quote": "a]'\"; DROP TABLE x--",
    "bytes": b"x",
    "list": [],
    "list of lists": [[]],
    "tuple of nothing": (None,),
    "tuple of texts": ("\ud800",),
    "object": {},
    "object of surrogates": {"\ud800": "\ud800"},
    "anything": object(),
}


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(contracts.__path__, f"{contracts.__name__}."):
        if not found.name.endswith((".errors", ".rules", ".canonical")):
            yield importlib.import_module(found.name)


def public(kind: Callable[[object], bool]) -> dict[str, Any]:
    """What the modules define for others, by module and name."""
    return {
        f"{module.__name__.removeprefix(contracts.__name__ + '.')}.{name}": value
        for module in modules()
        for name, value in vars(module).items()
        if kind(value) and value.__module__ == module.__name__ and not name.startswith("_")
    }


#: Records that the ledger and the rules answer with. Nobody hands them in.
ANSWERS = {"operation.LoginGate", "operation.Operation"} | {
    f"nonproduction.registration.{name}" for name in ("Ceiling", "Member")
}
RECORDS = {
    name: value
    for name, value in public(lambda value: inspect.isclass(value) and dataclasses.is_dataclass(value)).items()
    if name not in ANSWERS
}
FUNCTIONS = public(inspect.isfunction)


def vectors(kind: str) -> list[dict[str, Any]]:
    return [vector for vector in DATA["vectors"] if vector["kind"] == kind]


def body(kind: str) -> dict[str, Any]:
    return dict(vectors(kind)[0]["inputs"])


def stored(kind: str) -> tuple[bytes, str]:
    vector = vectors(kind)[0]
    return str(vector.get("stored_document", vector["preimage"])).encode(), str(vector["sha256"])


@cache
def examples() -> Mapping[type, Any]:
    """One good record of each kind: those of the vectors with everything in them, and a few made here."""
    found: dict[type, Any] = {}

    def keep(value: object) -> None:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            found.setdefault(type(value), value)
            for field in dataclasses.fields(value):
                keep(getattr(value, field.name))
        elif isinstance(value, tuple):
            for member in value:
                keep(member)

    rebuilt: dict[str, Callable[[Mapping[str, Any]], object]] = {
        "activation_request": activation.request_from,
        "attempt_proof": proof.proof_from,
        "mssql_gate_evidence": gate_evidence.gate_observation_from,
        "np_scope": scope.scope_from,
        "np_fixture_plan": fixtures.fixture_plan_from,
        "np_qualification_plan": plans.qualification_plan_from,
        "np_grant": grants.grant_from,
        "qualification_owner_subject": qualification.qualification_owner_from,
        "qualification_operation_key": qualification.qualification_operation_from,
    }
    for kind, rebuild in rebuilt.items():
        for vector in vectors(kind):
            keep(rebuild(vector["inputs"]))
    for vector in vectors("np_work_item"):
        keep(plans.work_item_from(vector["inputs"]))
    keep(decided_of(published().exchange_intended(), swapped=True))
    in_force = policy.decode_policy(*stored("np_policy"))
    keep(in_force)
    environment, campaign = make.SERVICE, make.CLICKHOUSE
    mine = make_nonproduction.policy(environment)
    granted = make_nonproduction.qualification(mine, campaign)
    keep(make_nonproduction.originals(granted))
    keep(grants.signature_subject(granted, mine))
    keep(receipt(ENGINE))
    keep(PLAN)
    keep(SEAL)
    keep(make.coordinates())
    keep(principal.new_mssql_principal(make.SERVICE, "build"))
    keep(ownership.Owner(owner_kind="execution", owner_id=make.SERVICE))
    return found


def published() -> snapshot.SnapshotRecord:
    """A publication that is prepared."""
    parent = make.request([make.domain("a", "clickhouse"), make.domain("b", "clickhouse")])
    one = make.attempt(parent, "w000", ((parent.guards_of("w000")[0], 1),), make.coordinates())
    users = [
        principal.new_clickhouse_principal(make.CLICKHOUSE, "ingest"),
        principal.new_clickhouse_principal(make.CLICKHOUSE, "publish"),
    ]
    return snapshot_of(parent, one, users)


ENGINE = gate_profile.Engine(product_version="16.0.1", version_text="An emulation - 16")


def use(value: object) -> None:
    """Everything that is asked of an accepted record: its members, its digest, its bytes, its keys."""
    for name in dir(type(value)):
        if not name.startswith("_") and isinstance(getattr(type(value), name), property):
            getattr(value, name)
    for name in ("members", "document", "nested", "claim"):
        if callable(ask := getattr(value, name, None)):
            ask()


def refused_or_usable(call: Callable[[], object]) -> None:
    try:
        use(call())
    except GuardError as err:
        assert str(err).startswith(f"{err.code}: {err.reason}")


def test_every_record_has_an_example() -> None:
    assert set(RECORDS.values()) <= set(examples())


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_with_one_bad_member(name: str) -> None:
    good = examples()[RECORDS[name]]
    for field in dataclasses.fields(good):
        for bad in BAD.values():
            refused_or_usable(lambda field=field, bad=bad: dataclasses.replace(good, **{field.name: bad}))  # type: ignore[misc]  # by name


def calls() -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    of = examples()
    mine = make_nonproduction.policy(make.SERVICE)
    granted = make_nonproduction.qualification(mine, make.CLICKHOUSE)
    login = principal.new_mssql_principal(make.SERVICE, "build")
    whole = body("activation_request")
    return {
        "activation.request_from": ((whole,), {}),
        "activation.decode_request": (stored("activation_request"), {}),
        "activation.source_subject_sha256": (
            (),
            {key: value for key, value in body("source_subject").items() if key not in ("schema", "workloads")}
            | {"workloads": tuple(tuple(pin) for pin in body("source_subject")["workloads"])},
        ),
        "attempt.guard_epochs": ((of[attempt.Attempt].guard_epochs,), {}),
        "attempt.guard_epochs_sha256": ((of[attempt.Attempt].guard_epochs,), {}),
        "attempt.attempt_from": ((of[attempt.Attempt].members(),), {}),
        "attempt.decode_attempt": (stored("attempt"), {}),
        "gate_evidence.gate_observation_from": ((body("mssql_gate_evidence"),), {}),
        "gate_profile.engine_of": (("An emulation - 16", "16.0.1"), {}),
        "gate_profile.case_problems": (("gate", receipt(ENGINE).cases), {}),
        "gate_profile.receipt_from": ((json.loads(receipt(ENGINE).document()),), {}),
        "gate_profile.decode_receipt": ((receipt(ENGINE).document(), receipt(ENGINE).sha256), {}),
        "gate_profile.may_be_production": ((ENGINE,), {}),
        "gate_profile.obstacles": (
            (receipt(ENGINE),),
            {"server": ENGINE, "product_version": "1", "authority": "nonproduction"},
        ),
        "gate_profile.unlocks": ((receipt(ENGINE),), {"server": ENGINE, "product_version": "1"}),
        "lifecycle.may_move": ((lifecycle.OPERATION, "RUNNING", "FAILED"), {}),
        "lifecycle.require_move": ((lifecycle.OPERATION, "RUNNING", "FAILED", "reason"), {}),
        "lifecycle.move_owner": (("execution", "PREPARED", "ACTIVE"), {}),
        "lifecycle.move_operation": (("RUNNING", "FAILED"), {"reconciling": False}),
        "lifecycle.move_login_gate": (("READY", "CLOSING"), {}),
        "lifecycle.qualification_allows": (("ACTIVE", "fixture_seed"), {}),
        "nonproduction.fixtures.original_from": ((of[fixtures.PlanOriginal].members(),), {}),
        "nonproduction.fixtures.fixture_plan_from": ((body("np_fixture_plan"),), {}),
        "nonproduction.fixtures.decode_fixture_plan": (stored("np_fixture_plan"), {}),
        "nonproduction.grants.consumption_subject_sha256": ((granted,), {}),
        "nonproduction.grants.signature_subject": ((granted, mine), {}),
        "nonproduction.grants.workload_member_document": (("w",), {}),
        "nonproduction.grants.require_grant": ((granted,), {}),
        "nonproduction.grants.grant_from": ((body("np_grant"),), {}),
        "nonproduction.grants.decode_grant": (stored("np_grant"), {}),
        "nonproduction.plans.work_item_from": ((body("np_work_item"),), {}),
        "nonproduction.plans.qualification_plan_from": ((body("np_qualification_plan"),), {}),
        "nonproduction.plans.decode_qualification_plan": (stored("np_qualification_plan"), {}),
        "nonproduction.policy.require_validity": (("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", 5), {}),
        "nonproduction.policy.require_epoch": ((1,), {}),
        "nonproduction.policy.decode_policy": (stored("np_policy"), {}),
        "nonproduction.registration.workload_sha256": (("w",), {}),
        "nonproduction.registration.ceilings": ((granted, mine), {}),
        "nonproduction.registration.member_ceiling": ((registration.ceilings(granted, mine),), {}),
        "nonproduction.registration.members_of": (([("x", granted)],), {}),
        "nonproduction.scope.text": (("x",), {}),
        "nonproduction.scope.repository": ((mine.source_repository,), {}),
        "nonproduction.scope.require_participants": ((mine.participants,), {}),
        "nonproduction.scope.limits_from": ((of[scope.Limits].members(),), {}),
        "nonproduction.scope.route_from": ((of[scope.RouteDimensions].members(),), {}),
        "nonproduction.scope.participant_from": ((json.loads(json.dumps(of[scope.Participant].members())),), {}),
        "nonproduction.scope.scope_from": ((body("np_scope"),), {}),
        "nonproduction.scope.stored_object": ((stored("np_grant")[0], grants.GRANT_SCHEMA), {}),
        "nonproduction.seal.source_seal_from": ((json.loads(SEAL.document()),), {}),
        "nonproduction.seal.decode_source_seal": ((SEAL.document(), SEAL.sha256), {}),
        "nonproduction.seed.value_rule": (("integer",), {}),
        "nonproduction.seed.content_sha256": ((PLAN.rows,), {}),
        "nonproduction.seed.schema_sha256": ((PLAN.columns, PLAN.key), {}),
        "nonproduction.seed.seed_plan_from": ((json.loads(PLAN.document()),), {}),
        "nonproduction.seed.decode_seed_plan": ((PLAN.document(), PLAN.sha256), {}),
        "ownership.owner_key": (("execution", make.SERVICE), {}),
        "ownership.guard_id": ((), body("physical_guard")),
        "ownership.claim_from": ((body("physical_claim_bytes"),), {}),
        "ownership.decode_claim": ((stored("physical_claim_bytes")[0],), {}),
        "ownership.relation_write_subject": ((), body("relation_write_subject")),
        "principal.new_mssql_principal": ((make.SERVICE, "build"), {}),
        "principal.new_clickhouse_principal": ((make.SERVICE, "ingest"), {}),
        "principal.new_postgres_principal": ((make.SERVICE, "extract"), {}),
        "proof.authorities_of": (([login],), {}),
        "proof.proof_for": ((of[attempt.Attempt], [login], "OUTCOME", make.sha("x"), "FAILED"), {}),
        "proof.proof_from": ((body("attempt_proof"),), {}),
        "proof.decode_proof": (stored("attempt_proof"), {}),
        "qualification.invocation_key": ((), body("qualification_invocation_key")),
        "qualification.qualification_owner_from": ((body("qualification_owner_subject"),), {}),
        "qualification.qualification_operation_from": ((body("qualification_operation_key"),), {}),
        "qualification.decode_qualification_owner": (stored("qualification_owner_subject"), {}),
        "qualification.decode_qualification_operation": (stored("qualification_operation_key"), {}),
        "snapshot.classify_exchange": (
            (of[snapshot.SnapshotIntent], of[snapshot.ExchangeObservation]),
            {},
        ),
        "snapshot.snapshot_record_from": ((json.loads(stored("snapshot_record")[0]),), {}),
        "snapshot.decode_snapshot_record": (stored("snapshot_record"), {}),
        "snapshot_subjects.exchange_observation_from": (
            (json.loads(json.dumps(of[snapshot.ExchangeObservation].members())),),
            {},
        ),
    }


def test_every_function_has_a_good_call() -> None:
    assert set(calls()) == set(FUNCTIONS)
    for name, (positional, named) in calls().items():
        FUNCTIONS[name](*positional, **named)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_with_one_bad_argument(name: str) -> None:
    positional, named = calls()[name]
    function = FUNCTIONS[name]
    for number in range(len(positional)):
        for bad in BAD.values():
            given_now = (*positional[:number], bad, *positional[number + 1 :])
            refused_or_usable(lambda given_now=given_now: function(*given_now, **named))  # type: ignore[misc]  # by value
    for word in named:
        for bad in BAD.values():
            refused_or_usable(lambda word=word, bad=bad: function(*positional, **{**named, word: bad}))  # type: ignore[misc]  # by value


#: Functions that rebuild a record from what somebody decoded.
REBUILDING = sorted(name for name in FUNCTIONS if name.endswith("_from"))


def paths(value: object, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a decoded document."""
    yield at
    if isinstance(value, dict):
        for key, member in value.items():
            yield from paths(member, (*at, key))
    elif isinstance(value, list):
        for number, member in enumerate(value):
            yield from paths(member, (*at, number))


def put(value: Any, at: tuple[Any, ...], bad: object) -> Any:
    if not at:
        return bad
    if isinstance(value, dict):
        return {**value, at[0]: put(value[at[0]], at[1:], bad)}
    return [*value[: at[0]], put(value[at[0]], at[1:], bad), *value[at[0] + 1 :]]


@pytest.mark.parametrize("name", REBUILDING)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_document_that_is_wrong_somewhere(name: str, data: st.DataObject) -> None:
    """One or two places of a good document hold something else, or members are missing or too many."""
    document = json.loads(json.dumps(calls()[name][0][0]))
    for _ in range(data.draw(st.integers(1, 2))):
        at = data.draw(st.sampled_from(list(paths(document))))
        document = put(document, at, data.draw(st.sampled_from(list(BAD.values()))))
        if isinstance(document, dict) and document and data.draw(st.booleans()):
            document = {**document, "more": 1}
            del document[data.draw(st.sampled_from(sorted(document, key=repr)))]
    refused_or_usable(lambda: FUNCTIONS[name](document))


@pytest.mark.parametrize("name", sorted(name for name in FUNCTIONS if ".decode_" in f".{name}"))
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_stored_bytes_that_were_changed(name: str, data: st.DataObject) -> None:
    """A byte is changed, cut or added, with and without its digest: nothing but the original is read back."""
    document, *rest = calls()[name][0]
    at = data.draw(st.integers(0, len(document) - 1))
    changed = document[:at] + data.draw(st.binary(max_size=2)) + document[at + data.draw(st.integers(0, 2)) :]
    if changed == document:
        return
    digest = [canonical.sha256_text(changed)] if data.draw(st.booleans()) and rest else rest
    if name == "ownership.decode_claim" or digest != rest:
        refused_or_usable(lambda: FUNCTIONS[name](changed, *digest))
        return
    with pytest.raises(GuardError):
        FUNCTIONS[name](changed, *digest)
