"""An empty start empties a state folder, and nothing that is not one."""

from __future__ import annotations

from pathlib import Path

import pytest
from dpone_embedded import Stack, StackError


def test_a_folder_that_is_no_state_folder_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    with pytest.raises(StackError, match="not the state folder"):
        Stack(tmp_path).erase()
    assert (tmp_path / "precious").exists()


def test_a_state_folder_is_emptied_also_after_a_start_that_failed(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "state")
    stack.state.create()
    stack.state.lock()
    stack.state.unlock()
    stack.state.write("stack.json", {"phase": "failed", "services": {}})
    stack.erase()
    assert list((tmp_path / "state").iterdir()) == []
    stack.erase()


def test_a_running_stack_is_not_removed(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "state")
    stack.state.create()
    stack.state.lock()
    try:
        with pytest.raises(StackError, match="already running"):
            stack.erase()
    finally:
        stack.state.unlock()
    assert (tmp_path / "state").exists()
