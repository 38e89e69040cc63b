"""Activations as tasks: the same life as by `dponectl`, and an error that a retry would not mend is not retried."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_dpone.composition import factory, projection, release
from airflow_provider_dpone.contracts.errors import ConfigurationError, ControlUnavailable, Overlap
from airflow_provider_dpone.hooks import roles
from airflow_provider_dpone.hooks.roles import GuardRoles
from airflow_provider_dpone.operators import (
    ActivateComposition,
    PrepareComposition,
    ReconcileComposition,
    RetireComposition,
)
from airflow_provider_dpone.sensors import ActivationSensor
from tests.support.compositions import NATIVE, Store, activation, write_source


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A ledger and servers in memory, under the release root that the tasks name."""
    held = Store()
    monkeypatch.setattr(GuardRoles, "services", lambda _: None)
    monkeypatch.setattr(factory, "build_composition_activation", lambda root, _services: activation(root, held))
    return held


@pytest.fixture
def releases(tmp_path: Path) -> tuple[str, str]:
    for name, native in (("first", NATIVE), ("second", NATIVE.replace("1000000", "2"))):
        release.build(write_source(tmp_path / f"{name} source", native=native), tmp_path / name)
    return str(tmp_path / "first"), str(tmp_path / "second")


def run(operator: type, tmp_path: Path, **arguments: Any) -> dict[str, Any]:
    task = operator(task_id="task", release_root=str(tmp_path / "root"), **arguments)
    done: dict[str, Any] = task.execute({})
    return done


def test_a_life_in_tasks(store: Store, releases: tuple[str, str], tmp_path: Path) -> None:
    first, second = releases
    prepared = run(PrepareComposition, tmp_path, release=first)
    assert prepared["state"] == "PREPARED" and projection.current_activation_id(tmp_path / "root") is None
    assert run(ReconcileComposition, tmp_path, activation_id=prepared["activation_id"])["state"] == "ACTIVE"
    with pytest.raises(Overlap):
        run(ActivateComposition, tmp_path, release=second)
    drained = run(ActivateComposition, tmp_path, release=second, drain=True, patience=timedelta(0))
    assert drained["state"] == "ACTIVE" and store.states[prepared["activation_id"]] == "RETIRED"
    assert run(RetireComposition, tmp_path, in_force=True) == {
        "activation_id": drained["activation_id"],
        "state": "RETIRED",
    }
    given_up = run(PrepareComposition, tmp_path, release=first)["activation_id"]
    assert run(RetireComposition, tmp_path, activation_id=given_up)["state"] == "RETIRED"


@pytest.mark.parametrize("step", ["prepare", "activate"])
def test_a_lost_acknowledgement_is_not_retried_and_names_the_command(
    store: Store, releases: tuple[str, str], tmp_path: Path, step: str
) -> None:
    store.lost = {step}
    with pytest.raises(AirflowFailException, match="dponectl composition reconcile") as failed:
        run(ActivateComposition, tmp_path, release=releases[0])
    (left,) = activation(tmp_path / "root", store).status().unfinished
    assert left.command in str(failed.value)
    store.lost = set()
    assert run(ReconcileComposition, tmp_path, activation_id=left.activation_id)["state"] == "ACTIVE"


def test_a_ledger_that_was_not_reached_before_anything_was_noted_is_retried(
    store: Store, releases: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(_: str) -> None:
        raise ControlUnavailable("control_connect")

    active = run(ActivateComposition, tmp_path, release=releases[0])
    monkeypatch.setattr(store, "read", unreachable)
    with pytest.raises(ControlUnavailable):
        run(RetireComposition, tmp_path, in_force=True)
    assert store.states == {active["activation_id"]: "ACTIVE"}


@pytest.mark.parametrize("rendered", ["", " ", None])
def test_a_template_that_renders_to_nothing_is_no_default(
    store: Store, releases: tuple[str, str], tmp_path: Path, rendered: str | None
) -> None:
    """An activation that was given up returns no id; to retire that one must not retire the one in force."""
    active = run(ActivateComposition, tmp_path, release=releases[0])
    fields = {
        RetireComposition: {"activation_id": "{{ x }}"},
        ReconcileComposition: {"activation_id": "{{ x }}"},
        PrepareComposition: {"release": releases[0], "expected_release_id": "{{ x }}"},
        ActivateComposition: {"release": "{{ x }}"},
        ActivationSensor: {"activation_id": "{{ x }}"},
    }
    for operator, arguments in fields.items():
        task: Any = operator(task_id="task", release_root=str(tmp_path / "root"), **arguments)
        (templated,) = [name for name, value in arguments.items() if value == "{{ x }}"]
        setattr(task, templated, rendered)
        with pytest.raises(ConfigurationError, match="template_empty"):
            task.execute({})
    assert store.states == {active["activation_id"]: "ACTIVE"}


@pytest.mark.parametrize("which", [{}, {"activation_id": None}, {"activation_id": "a", "in_force": True}])
def test_which_activation_is_retired_is_never_a_default(which: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="in_force=True"):
        RetireComposition(task_id="task", **which)


def test_a_retirement_mapped_over_an_id_that_is_missing_retires_nothing(
    store: Store, releases: tuple[str, str], tmp_path: Path
) -> None:
    """Ids that another task returned: of an activation that was given up there is none."""
    active = run(ActivateComposition, tmp_path, release=releases[0])
    with DAG("retirements", schedule=None):
        mapped = RetireComposition.partial(task_id="retire", release_root=str(tmp_path / "root")).expand(
            activation_id=[None]
        )
    with pytest.raises(ValueError, match="in_force=True"):
        mapped.unmap({"activation_id": None})
    assert store.states == {active["activation_id"]: "ACTIVE"}


def test_a_release_root_that_renders_to_nothing_is_not_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__DPONE__RELEASE_ROOT", str(tmp_path))
    assert roles.release_root(None) == tmp_path
    with pytest.raises(ConfigurationError, match="release_root"):
        roles.release_root("")


@pytest.mark.parametrize("rendered", ["", " ", None])
def test_a_root_that_renders_to_nothing_is_not_the_settings(
    store: Store, releases: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rendered: str | None
) -> None:
    """What is retired would be another composition's activation."""
    active = run(ActivateComposition, tmp_path, release=releases[0])
    monkeypatch.setenv("AIRFLOW__DPONE__RELEASE_ROOT", str(tmp_path / "root"))
    fields: dict[Any, dict[str, Any]] = {
        RetireComposition: {"in_force": True},
        ReconcileComposition: {"activation_id": active["activation_id"]},
        PrepareComposition: {"release": releases[1]},
        ActivateComposition: {"release": releases[1], "drain": True},
        ActivationSensor: {"activation_id": active["activation_id"]},
    }
    for operator, arguments in fields.items():
        task: Any = operator(task_id="task", release_root="{{ x }}", **arguments)
        task.release_root = rendered
        with pytest.raises(ConfigurationError, match="template_empty"):
            task.execute({})
    assert store.states == {active["activation_id"]: "ACTIVE"}
    assert RetireComposition(task_id="task", in_force=True).execute({})["state"] == "RETIRED", "none was named"
