"""How an operator ends: with the result, with a wait, or without a retry; and never with a secret on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_provider_dpone.attempts import GuardedAttempt
from airflow_provider_dpone.composition import services as composition_services
from airflow_provider_dpone.contracts.errors import (
    AttemptFailed,
    ConfigurationError,
    ControlUnavailable,
    Duplicate,
    GateTampered,
    OutcomeUnknown,
    Overlap,
)
from airflow_provider_dpone.drivers.secret import Secret
from airflow_provider_dpone.hooks import GuardRoles
from airflow_provider_dpone.operators import GuardedDbtRun, PostgresToMsSql
from airflow_provider_dpone.operators.guarded import coordinates_of
from airflow_provider_dpone.routes.interface import RouteReport

CANARY = "correct-horse-battery-staple"
TI = SimpleNamespace(
    dag_id="flights",
    run_id="manual__2026-11-29T13:52:27.237281+00:00",
    task_id="group.work",
    map_index=-1,
    try_number=3,
    id="0f8fad5b-d9cd-469f-a165-70867728950e",
)
CONTEXT: Any = {"ti": TI}


@dataclass
class Attempt:
    """Stands for `GuardedAttempt` where an operator calls it; ends as the test says."""

    ends: Exception | None = None
    calls: tuple[str, ...] = field(default=())

    def run(self) -> Any:
        return self._end("run")

    def admit_and_work(self) -> Any:
        return self._end("admit_and_work")

    def cancel(self) -> None:
        self.calls += ("cancel",)

    def _end(self, name: str) -> Any:
        self.calls += (name,)
        if self.ends is not None:
            raise self.ends
        operation = SimpleNamespace(attempt_sha256="sha256:" + "0" * 64, state="SUCCEEDED")
        return SimpleNamespace(operation=operation, report=RouteReport(rows=7, bytes=70))


def test_the_stand_in_has_the_methods_of_the_real_one() -> None:
    for name in ("run", "admit_and_work", "cancel"):
        assert callable(getattr(GuardedAttempt, name))


@pytest.fixture
def attempt(monkeypatch: pytest.MonkeyPatch) -> Attempt:
    attempt = Attempt()
    secrets = SimpleNamespace(controller=Secret(CANARY))
    manifest = SimpleNamespace(cell="sqlserver_dbt_v1", dag_id="flights")
    active = SimpleNamespace(activation_id="a", released=SimpleNamespace(manifest=manifest))
    monkeypatch.setattr(GuardRoles, "services", lambda _roles: secrets)
    monkeypatch.setattr(composition_services, "guarded_attempt", lambda *_args, **_kwargs: attempt)
    monkeypatch.setattr("airflow_provider_dpone.composition.projection.load_workload", lambda _root, _id: active)
    return attempt


def operator(kind: type[Any] = GuardedDbtRun, **arguments: Any) -> Any:
    task = kind(task_id="work", workload_id="warehouse", release_root="/releases", **arguments)
    object.__setattr__(task, "_dag", SimpleNamespace(dag_id="flights"))
    return task


@pytest.fixture(autouse=True)
def in_the_dag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GuardedDbtRun, "dag_id", "flights", raising=False)
    monkeypatch.setattr(PostgresToMsSql, "dag_id", "flights", raising=False)


def test_composite_runs_every_step_and_work_stops_after_the_work(attempt: Attempt) -> None:
    answer = operator().execute(CONTEXT)
    operator(mode="work").execute(CONTEXT)
    assert attempt.calls == ("run", "admit_and_work")
    assert (answer["state"], answer["rows"], answer["bytes"]) == ("SUCCEEDED", 7, 70)


def test_overlap_fails_by_default(attempt: Attempt) -> None:
    attempt.ends = Overlap(blockers=["sha256:1"])
    with pytest.raises(Overlap, match="sha256:1"):
        operator().execute(CONTEXT)


def test_overlap_waits_without_a_worker_when_told_to_and_not_forever(attempt: Attempt) -> None:
    attempt.ends = Overlap(blockers=["sha256:1"])
    task = operator(overlap="defer")
    with pytest.raises(TaskDeferred) as deferred:
        task.execute(CONTEXT)
    assert deferred.value.method_name == "execute_after_overlap"
    again = dict(deferred.value.kwargs or {})
    with pytest.raises(TaskDeferred) as second:
        task.execute_after_overlap(CONTEXT, {}, **again)
    assert second.value.kwargs == again, "the clock of the wait starts once"
    with pytest.raises(Overlap):
        task.execute_after_overlap(CONTEXT, {}, waiting_since="2020-01-01T00:00:00+00:00")


@pytest.mark.parametrize("error", [OutcomeUnknown("commit_unknown"), GateTampered("login"), Duplicate("coordinates")])
def test_what_a_retry_could_make_worse_fails_without_one(attempt: Attempt, error: Exception) -> None:
    attempt.ends = error
    with pytest.raises(AirflowFailException) as failed:
        operator().execute(CONTEXT)
    assert str(failed.value) == str(error)
    assert failed.value.__cause__ is error


@pytest.mark.parametrize("error", [AttemptFailed("attempt_failed"), ControlUnavailable("mssql_connect")])
def test_what_a_retry_may_repeat_is_left_to_airflow(attempt: Attempt, error: Exception) -> None:
    attempt.ends = error
    with pytest.raises(type(error)):
        operator().execute(CONTEXT)


def test_the_unknown_names_the_command_that_reconciles() -> None:
    assert "dponectl attempts reconcile" in str(OutcomeUnknown("commit_unknown"))


def test_an_operator_refuses_the_workload_of_another_cell(attempt: Attempt) -> None:
    with pytest.raises(ConfigurationError, match="execution_cell"):
        operator(PostgresToMsSql).execute(CONTEXT)
    assert attempt.calls == ()


def test_an_operator_refuses_the_workload_of_another_dag(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GuardedDbtRun, "dag_id", "other")
    with pytest.raises(ConfigurationError, match="workload_dag"):
        operator().execute(CONTEXT)
    assert attempt.calls == ()


def test_a_kill_cancels_the_running_attempt_and_only_a_running_one(attempt: Attempt) -> None:
    task = operator()
    task.on_kill()
    assert not attempt.calls
    attempt_run = attempt.run

    def killed_in_the_middle() -> Any:
        task.on_kill()
        return attempt_run()

    attempt.run = killed_in_the_middle  # type: ignore[method-assign]  # the moment of the kill
    task.execute(CONTEXT)
    assert attempt.calls == ("cancel", "run")


def test_no_secret_is_ever_an_attribute(attempt: Attempt) -> None:
    task = operator()
    before = set(vars(task))
    task.execute(CONTEXT)
    assert CANARY not in repr(vars(task))
    assert set(vars(task)) - before <= {"_running", "_cached_logger"}
    assert not [name for name, value in vars(task).items() if isinstance(value, Secret)]
    assert set(task.template_fields) == {"workload_id", "release_root"}


def test_coordinates_are_the_real_ones() -> None:
    coordinates = coordinates_of(CONTEXT, mapped_input={"workload_id": "w"})
    assert coordinates.instance == (TI.dag_id, TI.run_id, TI.task_id, -1)
    assert (coordinates.try_number, coordinates.task_instance_id) == (3, TI.id)
    assert coordinates.mapped_input_sha256 is None, "only a mapped task has a mapped input"


def test_a_map_index_is_pinned_to_what_it_stood_for() -> None:
    mapped: Any = {"ti": SimpleNamespace(**{**vars(TI), "map_index": 0})}
    planes = coordinates_of(mapped, mapped_input={"workload_id": "planes"})
    airports = coordinates_of(mapped, mapped_input={"workload_id": "airports"})
    assert planes.instance == airports.instance
    assert planes.mapped_input_sha256 != airports.mapped_input_sha256


def test_a_shared_connection_has_to_be_said() -> None:
    with pytest.raises(ConfigurationError, match="shared_role"):
        GuardRoles(controller="one", outcome_reader="one")
    assert GuardRoles(controller="one", outcome_reader="one", shared=("one",)).controller == "one"


def test_roles_survive_a_trigger() -> None:
    roles = GuardRoles(controller="one", outcome_reader="one", shared=("one",))
    assert GuardRoles.from_document(roles.to_document()) == roles


def test_the_release_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_dpone.hooks.roles import release_root

    monkeypatch.delenv("AIRFLOW__DPONE__RELEASE_ROOT", raising=False)
    with pytest.raises(ConfigurationError, match="release_root"):
        release_root(None)
    monkeypatch.setenv("AIRFLOW__DPONE__RELEASE_ROOT", "/srv/ré leases")
    assert release_root(None) == Path("/srv/ré leases")


def test_dbts_user_the_folder_for_artifacts_and_the_environment_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_dpone.hooks.roles import dbt_user, environment, work_root

    for name in ("DBT_USER", "WORK_ROOT", "ENVIRONMENT"):
        monkeypatch.delenv(f"AIRFLOW__DPONE__{name}", raising=False)
    assert (dbt_user(), work_root().name, environment()) == (None, "dpone", None)
    monkeypatch.setenv("AIRFLOW__DPONE__ENVIRONMENT", "production")
    assert environment() == "production"
    monkeypatch.setenv("AIRFLOW__DPONE__DBT_USER", "60706:60706")
    monkeypatch.setenv("AIRFLOW__DPONE__WORK_ROOT", "/srv/wörk")
    assert (dbt_user(), work_root()) == ("60706:60706", Path("/srv/wörk"))


def test_a_sweep_takes_airflows_word_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_provider_dpone import attempts as attempts_package
    from airflow_provider_dpone import ledger
    from airflow_provider_dpone.operators import SweepAttempts

    def operation(task_id: str, map_index: int = -1) -> Any:
        at = SimpleNamespace(dag_id="flights", run_id="r", task_id=task_id, map_index=map_index)
        return SimpleNamespace(coordinates=at, digest_prefix=task_id, state="RUNNING")

    states = {
        "ended": "failed",
        "alive": "running",
        "waiting": "deferred",
        "mapped_1": "success",
        "retries": "up_for_retry",
    }
    context: Any = {"ti": SimpleNamespace(get_task_states=lambda **_: {"r": states})}
    asked: dict[str, bool] = {}

    def sweep(_store: Any, *, is_over: Any, settlement_of: Any) -> tuple[()]:
        for each in (*map(operation, ("ended", "alive", "waiting", "retries", "deleted")), operation("mapped", 1)):
            asked[each.coordinates.task_id] = is_over(each)
        return ()

    monkeypatch.setattr(composition_services, "free_ledger", lambda _: None)
    monkeypatch.setattr(attempts_package, "sweep", sweep)
    monkeypatch.setattr(ledger, "AttemptStore", lambda *_: None)
    monkeypatch.setattr(GuardRoles, "services", lambda _: SimpleNamespace(control=None, ledger=None))
    assert SweepAttempts(task_id="sweep", release_root="/releases").execute(context) == {}
    assert asked == {
        "ended": True,
        "alive": False,
        "waiting": False,
        "retries": True,
        "deleted": False,
        "mapped": True,
    }
