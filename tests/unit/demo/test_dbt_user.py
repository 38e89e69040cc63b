"""As whom the demo's dbt runs: an OS user that nobody else is where that can be, and the reason where it cannot."""

from __future__ import annotations

import os
import pwd
import stat
import sys

import pytest
from dpone_demo.dbt_user import dbt_settings

from tests.support.other_user import CAN_SWITCH, interpreter_for, open_folder, provider_is_open, unused_user


def test_an_unused_number_where_that_user_can_run_dbt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_folder() as folder:
        if CAN_SWITCH:
            monkeypatch.setattr(sys, "executable", interpreter_for(unused_user(), folder, monkeypatch))
        settings = dbt_settings(folder / "attempts")
        said = capsys.readouterr().out
        if provider_is_open(unused_user()):
            # Another test may use such a number at the same time, so it is not asked which one is free.
            user = settings["dbt_user"]
            assert settings == {"dbt_user": user, "work_root": str(folder / "attempts")}
            uid, gid = user.split(":")
            assert uid == gid and uid not in {str(entry.pw_uid) for entry in pwd.getpwall()}
            assert stat.S_IMODE((folder / "attempts").stat().st_mode) == 0o711
            assert f"as the OS user {user}" in said
        else:
            assert settings == {}
            assert "cannot use" in said if CAN_SWITCH else "only root can" in said or "lacks CAP_" in said


def test_the_reason_where_it_cannot(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with open_folder() as folder:
        closed = folder / "closed"
        closed.mkdir(mode=0o700)
        (closed / "python").write_bytes(b"")
        monkeypatch.setattr(sys, "executable", str(closed / "python"))
        assert dbt_settings(folder / "attempts") == {}
    said = capsys.readouterr().out
    assert str(closed / "python") in said if CAN_SWITCH else "dbt runs as" in said
    assert ("dbt runs as root" in said) == (os.geteuid() == 0)
