"""What a rollback can go to, and where it goes when nobody says it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from airflow_provider_dpone.cli import composition_commands
from airflow_provider_dpone.cli.configuration import Configuration
from airflow_provider_dpone.composition import release, rollback
from airflow_provider_dpone.composition.rollback import kept_deployments, rollback_target
from airflow_provider_dpone.contracts.errors import ConfigurationError
from tests.support.compositions import NATIVE, Store, activation, write_source


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two releases were in force, the first one twice: first, second, first."""
    root, store = tmp_path / "root", Store()
    for name, native in (("first", NATIVE), ("second", NATIVE.replace("1000000", "2"))):
        release.build(write_source(tmp_path / f"{name} source", native=native), tmp_path / name)
        activation(root, store).hand_over(tmp_path / name)
    activation(root, store).roll_back()
    return root


@pytest.fixture
def said(root: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`dponectl composition …` over a ledger in memory."""
    store = Store()
    monkeypatch.setattr(Configuration, "services", lambda _: SimpleNamespace())
    monkeypatch.setattr(composition_commands, "build_composition_activation", lambda at, _: activation(at, store))

    def run(*arguments: str) -> Any:
        settings = Configuration({"release_root": str(root)}, "test")
        return CliRunner().invoke(composition_commands.composition, list(arguments), obj=settings)

    return run


def test_every_sealed_deployment_is_told_with_its_place(root: Path) -> None:
    second, first = kept_deployments(root)
    assert (first.current, first.previous, first.activations) == (True, False, 2)
    assert (second.current, second.previous, second.activations) == (False, True, 1)
    assert first.release_id != second.release_id and first.environment == "test"


def test_a_rollback_goes_to_the_one_before_or_to_the_one_that_is_named(root: Path) -> None:
    second, first = kept_deployments(root)
    assert rollback_target(root, None) == second
    for named in (first.deployment_id, first.deployment_id[:20], first.deployment_id[7:19]):
        assert rollback_target(root, named) == first
    for named in ("", "sha256:", first.deployment_id[:10]):
        with pytest.raises(ConfigurationError, match="is not there"):
            rollback_target(root, named)


def test_digits_that_two_deployments_begin_with_tell_none(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    twins = [
        replace(each, deployment_id=f"sha256:{'a' * 63}{number}") for number, each in enumerate(kept_deployments(root))
    ]
    monkeypatch.setattr(rollback, "kept_deployments", lambda _: twins)
    with pytest.raises(ConfigurationError, match="2 deployments begin with aaaaaa"):
        rollback_target(root, "aaaaaa")
    assert rollback_target(root, twins[1].deployment_id) == twins[1]


def test_where_it_goes_is_said_before_anything_is_done(root: Path, said: Any) -> None:
    second, first = kept_deployments(root)
    # This ledger is empty, so the handover itself is refused.
    refused = said("rollback")
    assert refused.exit_code != 0
    assert f"going back to the deployment {second.deployment_id}\n" in refused.output
    assert str(second.release_id) in refused.output and "No SQL is undone" in refused.output
    assert "is activated again" in said("rollback", "--deployment", first.deployment_id).output
    listed = said("deployments").output
    assert [line for line in listed.splitlines() if line.startswith("sha256:")] == [
        second.deployment_id,
        first.deployment_id,
    ]
    assert "activated 2 times, current" in listed and "activated once, before the current" in listed


def test_one_that_is_damaged_is_listed_and_is_no_target(root: Path) -> None:
    second, _ = kept_deployments(root)
    (root / "deployments" / second.deployment_id.removeprefix("sha256:") / "deployment.json").write_text("{}")
    damaged, whole = kept_deployments(root)
    assert damaged.problem is not None and damaged.release_id is None and whole.problem is None
    for deployment_id in (None, second.deployment_id, "sha256:ab", "../deployments"):
        with pytest.raises(ConfigurationError, match="deployment_unknown"):
            rollback_target(root, deployment_id)


def test_before_a_second_one_was_in_force_there_is_none_to_go_back_to(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no_previous_deployment"):
        rollback_target(tmp_path, None)
    assert kept_deployments(tmp_path) == ()


def test_what_stands_among_the_deployments_and_is_none_hides_none(root: Path) -> None:
    whole, folder = kept_deployments(root), root / "deployments"
    (folder / ("a" * 64)).symlink_to(folder / "nowhere")
    (folder / ("b" * 64)).symlink_to(folder / ("b" * 64))
    (folder / "abc.moved-away").mkdir()
    (folder / os.fsdecode(b"a\xff\n")).mkdir()
    now = kept_deployments(root)
    assert [each for each in now if each.problem is None] == list(whole)
    assert {each.deployment_id for each in now if each.problem} == {f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"}
    assert rollback_target(root, None).previous
