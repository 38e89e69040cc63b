"""A run of the demo that was killed while it set up its databases is noticed by the next one, however far it came."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dpone_demo import provisioning
from dpone_embedded.statedir import StateDir


class Killed(BaseException):
    pass


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    state = StateDir(tmp_path / "state")
    state.create()
    stack = SimpleNamespace(state=state)

    def services(*_: object) -> object:
        provisioning.service_id(stack)  # type: ignore[arg-type]  # it reads and writes the folder only
        return object()

    def server(*_: object, **__: object) -> object:
        raise Killed

    monkeypatch.setattr(provisioning, "guard_services", services)
    monkeypatch.setattr(provisioning, "_as_dba", server)
    return stack


def test_a_new_folder_is_not_half_made(stack: Any) -> None:
    assert not provisioning.half_made(stack.state)


def test_a_run_killed_at_its_first_statement_is_noticed(stack: Any, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        provisioning.provision(stack, tmp_path)
    assert provisioning.half_made(stack.state)
    with pytest.raises(Exception, match="half_provisioned"):
        provisioning.provision(stack, tmp_path)


def test_a_whole_setup_stays_whole_when_a_later_run_is_killed(stack: Any, tmp_path: Path) -> None:
    with pytest.raises(Killed):
        provisioning.provision(stack, tmp_path)
    provisioning._note(stack, "done")
    with pytest.raises(Killed):
        provisioning.provision(stack, tmp_path)
    assert not provisioning.half_made(stack.state)
