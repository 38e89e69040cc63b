"""What SUCCEEDED of a dbt build rests on, against real builds: each part that is missing is named, and nothing is believed."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_provider_dpone.contracts.errors import AttemptFailed, ConfigurationError
from airflow_provider_dpone.drivers import trigger_points
from airflow_provider_dpone.routes.dbt import DbtRoute
from tests.support.dbt_project import project, until
from tests.support.live_gate import LiveGate
from tests.support.live_routes import LiveTransfer, start_worker
from tests.support.other_user import CAN_SWITCH, interpreter_for, open_folder, provider_is_open, run_as, unused_user

GOOD = "select cast(1 as int) as id"


def test_a_killed_merge_that_changed_rows_in_place_is_a_named_partial_effect(
    live: LiveGate, transfer: LiveTransfer, tmp_path: Path
) -> None:
    """The same table, the same number of rows, no definition changed: only the content tells."""
    source, released = (f"{name}_{secrets.token_hex(3)}" for name in ("source", "released"))
    transfer.in_target(f"CREATE TABLE [raw].[{source}] ([id] int NOT NULL, [v] nvarchar(9) NULL);")
    transfer.in_target(f"INSERT INTO [raw].[{source}] VALUES (1, N'a'), (2, NULL);")
    transfer.in_target(f"CREATE TABLE [raw].[{released}] ([a] int NOT NULL);")
    transfer.in_target(f"INSERT INTO [raw].[{released}] VALUES (1);")
    merge = {"materialized": "incremental", "incremental_strategy": "merge", "unique_key": "id"}
    wait = f"IF NOT EXISTS (SELECT 1 FROM raw.{released}) WAITFOR DELAY '00:03:00'"
    # Outside of the transaction: the adapter makes its helper relations before the other hooks.
    hook = {"sql": wait, "transaction": False}
    second = ("select id from {{ ref('first') }}", {"pre_hook": hook})
    mine = project(live, tmp_path, {"first": (f"select id, v from raw.{source}", merge), "second": second})
    first, _ = mine.models
    assert live.attempt(live.run_id(), route=mine.route()).run().operation.state == "SUCCEEDED"
    transfer.in_target(f"UPDATE [raw].[{source}] SET [v] = N'' WHERE [id] = 2;")
    transfer.in_target(f"DELETE FROM [raw].[{released}];")
    run_id = live.run_id()
    worker = start_worker(live, run_id, "", mine.document())
    try:
        # The merge is committed, and what it used is gone: dbt is at the second model.
        until(lambda: transfer.rows(first) == [(1, "a"), (2, "")], 120)
        until(lambda: f"{first}__dbt_tmp" not in transfer.tables(), 60)
        (dbt,) = psutil.Process(worker.pid).children()
    finally:
        worker.kill()
        worker.wait()
    until(lambda: not dbt.is_running(), 10)
    transfer.in_target(f"INSERT INTO [raw].[{released}] VALUES (1);")
    assert live.attempt(run_id, 2, route=mine.route()).run().operation.state == "SUCCEEDED"
    dead, _ = mine.operations(run_id)
    assert dead.state == "FAILED"
    evidence = mine.evidence(dead)
    assert evidence["changes"] == {f"raw.{first}": "content_changed"}
    assert evidence["differs"] == {"marker": "never written"}
    assert evidence["relations"][f"raw.{first}"]["rows"] == 2
    assert transfer.gone(dead)


def test_an_error_between_the_start_of_dbt_and_the_wait_for_it_leaves_no_dbt(live: LiveGate, tmp_path: Path) -> None:
    mine = project(live, tmp_path, {"first": (GOOD, {})})
    started: list[psutil.Process] = []

    def raising(step: str, moment: str) -> None:
        if (step, moment) == ("dbt_build", "applied"):
            started.extend(
                child for child in psutil.Process().children() if "dbt_child.py" in " ".join(child.cmdline())
            )
            raise TimeoutError

    with trigger_points.armed(raising), pytest.raises(AttemptFailed):
        live.attempt(live.run_id(), route=mine.route()).run()
    (dbt,) = started
    assert not dbt.is_running()


def test_a_write_after_the_marker_is_seen(
    live: LiveGate, transfer: LiveTransfer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session of the build that wakes up between the marker and the closure."""
    mine = project(live, tmp_path, {"first": (GOOD, {})})
    (first,) = mine.models
    mark = DbtRoute._mark

    def marked_and_then(*args: Any) -> None:
        mark(*args)
        transfer.in_target(f"UPDATE [raw].[{first}] SET [id] = 2;")

    monkeypatch.setattr(DbtRoute, "_mark", marked_and_then)
    run_id = live.run_id()
    with pytest.raises(AttemptFailed):
        live.attempt(run_id, route=mine.route()).run()
    (operation,) = mine.operations(run_id)
    assert operation.state == "FAILED"
    assert mine.evidence(operation)["differs"] == {"changed_since_marker": {f"raw.{first}": "content_changed"}}


def test_a_marker_that_a_model_writes_is_not_believed(live: LiveGate, transfer: LiveTransfer, tmp_path: Path) -> None:
    """dbt holds the attempt's login, may call the procedure, and can find the operation's key."""
    key = "{{ env_var('HOME').split('/')[-2] }}"
    forge = f"EXEC dpone_fence.mark 'sha256:{key}', 1, 'sha256:{'0' * 64}'"
    mine = project(live, tmp_path, {"first": (GOOD, {"post_hook": forge})})
    run_id = live.run_id()
    with pytest.raises(AttemptFailed):
        live.attempt(run_id, route=mine.route()).run()
    (operation,) = mine.operations(run_id)
    evidence = mine.evidence(operation)
    assert operation.state == "FAILED"
    assert evidence["marker_evidence_sha256"] == "sha256:" + "0" * 64
    assert evidence["differs"] == {"marker": "not of the record in the ledger"}


def test_a_helper_left_and_a_target_gone_are_no_success(live: LiveGate, transfer: LiveTransfer, tmp_path: Path) -> None:
    """dbt reports success for both models, and the marker is written; what is there says otherwise."""
    suffix = secrets.token_hex(3)
    hooks = [f"CREATE TABLE raw.last_{suffix}__dbt_tmp (a int)", f"DROP TABLE raw.first_{suffix}"]
    last = ("select id from {{ ref('first') }}", {"post_hook": hooks})
    mine = project(live, tmp_path, {"first": (GOOD, {}), "last": last}, suffix=suffix)
    first, last_name = mine.models
    run_id = live.run_id()
    with pytest.raises(AttemptFailed):
        live.attempt(run_id, route=mine.route()).run()
    (operation,) = mine.operations(run_id)
    evidence = mine.evidence(operation)
    assert operation.state == "FAILED"
    assert evidence["differs"] == {
        "targets_missing": [f"raw.{first}"],
        "helpers_left": [f"raw.{last_name}__dbt_tmp"],
    }
    assert evidence["changes"][f"raw.{last_name}"] == "created"
    transfer.in_target(f"DROP TABLE [raw].[{last_name}__dbt_tmp];")


def test_the_views_of_tests_that_a_killed_dbt_left_are_named_and_left_alone(
    live: LiveGate, transfer: LiveTransfer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mine = project(live, tmp_path, {"first": (GOOD, {})})
    left = [f"testview_{secrets.token_hex(16)}_18999", f"EXPECTEDVIEW_{secrets.token_hex(16)}_1"]
    others = [f"testview_{secrets.token_hex(3)}", f"my_{left[0]}"]
    for name in (*left, *others):
        transfer.in_target(f"CREATE VIEW [raw].[{name}] AS SELECT 1 AS [one];")
    with caplog.at_level("WARNING"):
        assert live.attempt(live.run_id(), route=mine.route()).run().operation.state == "SUCCEEDED"
    said = [each for each in caplog.messages if "killed dbt left" in each]
    assert said and all(f"[{live.target}].[raw].[{name}]" in each for name in left for each in said)
    assert not any(f".[{name}]" in each for name in others for each in said)
    for name in (*left, *others):
        transfer.in_target(f"DROP VIEW [raw].[{name}];")


def test_a_build_of_another_os_user_is_killed_with_its_worker(
    live: LiveGate, transfer: LiveTransfer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its retry, as that user too, settles it. Nothing of the worker is readable for that user meanwhile."""
    user = unused_user()
    with open_folder() as folder:
        monkeypatch.setattr(
            "sys.executable", interpreter_for(user, folder, monkeypatch) if CAN_SWITCH else "/usr/bin/env"
        )
        released = f"released_{secrets.token_hex(3)}"
        transfer.in_target(f"CREATE TABLE [raw].[{released}] ([a] int NOT NULL);")
        wait = f"IF NOT EXISTS (SELECT 1 FROM raw.{released}) WAITFOR DELAY '00:03:00'"
        models: Any = {"first": (GOOD, {}), "second": ("select id from {{ ref('first') }}", {"pre_hook": wait})}
        mine = project(live, folder, models, run_as=user.named)
        if not provider_is_open(user):
            with pytest.raises(ConfigurationError, match="dbt_user_reach" if CAN_SWITCH else "dbt_user_switch"):
                mine.route().require_ready()
            return
        mine.route().require_ready()
        passwords = folder / "state"
        passwords.mkdir(mode=0o700)
        (passwords / "secrets.json").write_text("{}")
        run_id, (first, last) = live.run_id(), mine.models
        worker = start_worker(live, run_id, "", mine.document())
        try:
            until(lambda: first in transfer.tables(), 120)
            (dbt,) = psutil.Process(worker.pid).children()
            assert set(dbt.uids()) | set(dbt.gids()) == {user.uid}
            assert "\nGroups:\t \n" in Path(f"/proc/{dbt.pid}/status").read_text()
            (attempt,) = mine.work_root.iterdir()
            process = Path(f"/proc/{worker.pid}")
            for path in (passwords / "secrets.json", attempt, process / "environ", process / "fd"):
                looked = run_as(user, "ls" if path.is_dir() else "cat", str(path))
                assert looked.returncode != 0 and "Permission denied" in looked.stderr, path
        finally:
            worker.kill()
            worker.wait()
        until(lambda: not dbt.is_running(), 10)
        transfer.in_target(f"INSERT INTO [raw].[{released}] VALUES (1);")
        retry = live.attempt(run_id, 2, route=mine.route()).run().operation
        dead, _ = mine.operations(run_id)
        assert (dead.state, retry.state) == ("FAILED", "SUCCEEDED")
        assert mine.evidence(dead)["changes"][f"raw.{first}"] == "created"
        assert {first, last} <= transfer.tables()
        kept = mine.work_root / retry.attempt_sha256.removeprefix("sha256:")
        assert (kept / "artifacts" / "target" / "run_results.json").stat().st_uid == 0
        assert not (kept / "dbt").exists()
