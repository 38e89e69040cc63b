"""What the cache accepts before it switches `current`, and what it says when it cannot know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dpone.composition import deployment, projection, release
from airflow_provider_dpone.composition.activation import CompositionActivation
from airflow_provider_dpone.composition.coordinator import CompositionActivationCoordinator
from airflow_provider_dpone.composition.deployment_cache import DeploymentCacheMaterializer, Occurrence
from airflow_provider_dpone.composition.execution_plan import plan_composition_execution
from airflow_provider_dpone.composition.factory import (
    build_composition_activation,
    build_composition_activation_coordinator,
)
from airflow_provider_dpone.composition.sources import build_composition_source_reader
from airflow_provider_dpone.contracts.errors import ActivationUnknown, AdmissionRefused, GuardError, ParentNotActive
from airflow_provider_dpone.ledger import Activation
from tests.support.compositions import Servers, Store, activation, coordinator, write_source

OTHER = "sha256:" + "1" * 64


@pytest.fixture
def built(tmp_path: Path) -> Path:
    release.build(write_source(tmp_path / "source"), tmp_path / "release")
    return tmp_path / "release"


class Forging(CompositionActivationCoordinator):
    """Answers with what `forge` makes of the true receipt of a step."""

    def __init__(self, store: Store, step: str, forge: Callable[[Activation], Any]) -> None:
        self._true = coordinator(store)
        self._step, self._forge = step, forge

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_"):
            return object.__getattribute__(self, name)
        found = getattr(self._true, name)
        if name != self._step:
            return found
        return lambda *args, **kwargs: self._forge(found(*args, **kwargs))


def context_of(receipt: Activation, **changed: Any) -> Activation:
    request = replace(receipt.request, context=replace(receipt.request.context, **changed))
    return replace(receipt, request=request, request_sha256=request.sha256, activation_id=request.activation_id)


FORGERIES: dict[str, Callable[[Activation], Any]] = {
    "untyped": lambda receipt: {"state": receipt.state},
    "nothing": lambda receipt: None,
    "native": lambda receipt: type("NativeReceipt", (), {"state": receipt.state, "request": receipt.request})(),
    "subclass": lambda receipt: type("Other", (Activation,), {})(
        **{name: getattr(receipt, name) for name in Activation.__dataclass_fields__}
    ),
    "retiring": lambda receipt: replace(receipt, state="RETIRING"),
    "another deployment": lambda receipt: context_of(receipt, deployment_id=OTHER),
    "another release": lambda receipt: context_of(receipt, release_id=OTHER),
    "another environment": lambda receipt: context_of(receipt, environment="other"),
    "another predecessor": lambda receipt: context_of(receipt, previous_deployment_id=OTHER),
    "another occurrence": lambda receipt: context_of(receipt, activation_id="00000000-0000-4000-8000-000000000001"),
    "another digest": lambda receipt: replace(receipt, request_sha256=OTHER),
    "a guard missing": lambda receipt: replace(receipt, guard_epochs=receipt.guard_epochs[1:]),
    "a guard more": lambda receipt: replace(receipt, guard_epochs=(*receipt.guard_epochs, (OTHER, 1))),
}


@pytest.mark.parametrize("name", sorted(FORGERIES))
def test_current_is_switched_for_a_typed_receipt_of_exactly_this_occurrence_only(
    built: Path, tmp_path: Path, name: str
) -> None:
    root = tmp_path / "root"
    with pytest.raises(ActivationUnknown, match="DPONE_COMPOSITION_ACTIVATION_COMMIT_UNKNOWN"):
        CompositionActivation(root, Forging(Store(), "prepare", FORGERIES[name])).activate(built)
    assert projection.current_activation_id(root) is None


AFTERWARDS = {
    **FORGERIES,
    "still prepared": lambda receipt: replace(receipt, state="PREPARED"),
    "other epochs": lambda receipt: replace(
        receipt, guard_epochs=tuple((guard, epoch + 1) for guard, epoch in receipt.guard_epochs)
    ),
}


@pytest.mark.parametrize("name", sorted(AFTERWARDS))
def test_an_acknowledgement_that_is_not_that_of_the_switched_occurrence_is_unknown_and_recovered(
    built: Path, tmp_path: Path, name: str
) -> None:
    root, store = tmp_path / "root", Store()
    with pytest.raises(ActivationUnknown) as refused:
        CompositionActivation(root, Forging(store, "activate", AFTERWARDS[name])).activate(built)
    assert refused.value.code == "DPONE_COMPOSITION_ACTIVATION_COMMIT_UNKNOWN"
    assert refused.value.state_may_have_changed and refused.value.recovery_required
    (left,) = activation(root, store).status().unfinished
    assert refused.value.details["command"] == left.command
    assert {path.name for path in root.iterdir()} >= {"deployments", "activations", "current.json", "unfinished"}
    assert activation(root, store).reconcile(left.activation_id).state == "ACTIVE"


def test_without_capabilities_the_public_way_is_shut(built: Path, tmp_path: Path) -> None:
    for refused in (
        lambda: build_composition_activation_coordinator(),
        lambda: build_composition_activation(tmp_path / "root"),
    ):
        with pytest.raises(AdmissionRefused, match="DPONE_COMPOSITION_ADMISSION_UNAVAILABLE: protected_capabilities"):
            refused()
    cache = DeploymentCacheMaterializer(tmp_path / "root")
    plan = plan_composition_execution(build_composition_source_reader().read_sources(built))
    domains = {alias: Servers().resolve(alias, binding) for alias, binding in plan.sources.bindings}
    sealed = deployment.seal(cache.root / "deployments", built, plan.sources, domains)
    occurrence = cache.begin(sealed, previous_deployment_id=None)
    for step in (cache.prepare, cache.promote):
        with pytest.raises(AdmissionRefused, match="coordinator_absent"):
            step(occurrence)
    assert projection.current_activation_id(cache.root) is None


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"environment": "other"}, "projection_context"),
        ({"release_id": OTHER}, "projection_context"),
        ({"deployment_id": OTHER}, "sealed_deployment"),
        ({"previous_deployment_id": OTHER}, "immutable_request"),
    ],
)
def test_stale_coordinates_are_refused_in_every_step(
    built: Path, tmp_path: Path, changed: dict[str, str], reason: str
) -> None:
    root, store = tmp_path / "root", Store()
    steps = coordinator(store)
    active = activation(root, store).activate(built)
    context = active.request.context
    coordinates: dict[str, Any] = {
        "projection_root": DeploymentCacheMaterializer(root).folder(context.deployment_id),
        "activation_id": context.activation_id,
        "environment": context.environment,
        "release_id": context.release_id,
        "deployment_id": context.deployment_id,
        "previous_deployment_id": None,
    }
    assert steps.require_active(**coordinates) == active == steps.prepare(**coordinates)
    for step in (steps.require_active, steps.prepare):
        with pytest.raises(GuardError, match=reason):
            step(**{**coordinates, **changed})
    assert store.states == {active.activation_id: "ACTIVE"}
    store.states[active.activation_id] = "RETIRING"
    for step in (steps.require_active, steps.prepare):
        with pytest.raises(ParentNotActive):
            step(**coordinates)


def test_other_packages_than_the_sealed_ones_put_nothing_in_force_and_keep_nothing_there(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, store = tmp_path / "root", Store()
    prepared = activation(root, store).prepare(built)
    here = deployment.runtime()
    monkeypatch.setattr(deployment, "runtime", lambda: {**here, "psycopg": "0.1"})
    with pytest.raises(AdmissionRefused, match="runtime_context") as refused:
        activation(root, store).reconcile(prepared.activation_id)
    assert "psycopg" in str(refused.value)
    retired = activation(root, store).retire(prepared.activation_id)
    assert retired is not None and retired.state == "RETIRED"


def test_a_stale_pointer_is_not_replaced(built: Path, tmp_path: Path) -> None:
    """The compare of compare and swap: `current` is what it was when the occurrence was begun."""
    root, store = tmp_path / "root", Store()
    cache = DeploymentCacheMaterializer(root, composition_activation_coordinator=coordinator(store))
    active = activation(root, store).activate(built)
    sealed = cache.deployment(active.request.context.deployment_id)
    store.states[active.activation_id] = "RETIRED"
    stale = cache.begin(sealed, previous_deployment_id=OTHER)
    with pytest.raises(ActivationUnknown, match="current_moved"):
        cache.promote(stale)
    assert projection.current_activation_id(root) == active.activation_id
    (left,) = activation(root, store).status().unfinished
    assert left.activation_id == stale.activation_id
    retired = activation(root, store).retire(stale.activation_id)
    assert retired is not None and retired.state == "RETIRED"


def test_a_damaged_note_is_refused_by_its_name(built: Path, tmp_path: Path) -> None:
    root, store = tmp_path / "root", Store()
    prepared = activation(root, store).prepare(built)
    (note,) = root.glob("unfinished/*.json")
    kept = note.read_text()
    for damaged in ("", "[]", kept[:-1], kept.replace(prepared.activation_id, OTHER), kept.replace("drains", "other")):
        note.write_text(damaged)
        for step in (activation(root, store).status, lambda: activation(root, store).reconcile(prepared.activation_id)):
            with pytest.raises(GuardError) as refused:
                step()
            assert note.name in str(refused.value)
    note.unlink()
    assert activation(root, store).reconcile(prepared.activation_id).state == "ACTIVE", "the ledger knows the rest"


def test_an_occurrence_of_which_the_ledger_holds_nothing_is_given_up(built: Path, tmp_path: Path) -> None:
    root, store = tmp_path / "root", Store()
    active = activation(root, store).activate(built)
    cache = DeploymentCacheMaterializer(root)
    sealed = cache.deployment(active.request.context.deployment_id)
    noted: Occurrence = cache.begin(sealed, previous_deployment_id=sealed.deployment_id)
    (left,) = activation(root, store).status().unfinished
    assert (left.activation_id, left.state) == (noted.activation_id, None)
    assert activation(root, store).retire(noted.activation_id) is None
    assert activation(root, store).status().unfinished == ()
    assert store.states == {active.activation_id: "ACTIVE"}
