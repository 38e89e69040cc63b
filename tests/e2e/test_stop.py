"""The end of the main job's stack. The last file here: the others look at the stack while it runs."""

from __future__ import annotations

import psutil
import pytest

from tests.e2e.conftest import MainJob

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1500)]


def test_no_process_of_the_stack_is_left(run: MainJob) -> None:
    def alive() -> list[list[str]]:
        found = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
        return [command for command in found if str(run.state) in " ".join(command)]

    assert alive(), "it was left up"
    run.stop()
    assert alive() == []
