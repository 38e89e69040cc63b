"""The OS user that dbt runs as in the demo: when the demo is root, a number that nobody else has."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import psutil

from airflow_provider_dpone.contracts.errors import ConfigurationError
from airflow_provider_dpone.routes import os_user
from airflow_provider_dpone.routes.dbt_process import CHILD, inherited_environment

#: Numbers that distributions leave alone. `nobody` is none of them: what is given to it, every other user of it has.
_NUMBERS = range(60706, 61184)


def dbt_settings(work_root: Path) -> dict[str, str]:
    """The settings of section [dpone] by which dbt runs as another user; none, with the reason, where it cannot."""
    if os.geteuid() != 0:
        print("  dbt runs as this user: only root can give it another one.", flush=True)
        return {}
    number = next(number for number in _NUMBERS if number not in set(_taken()))
    user = f"{number}:{number}"
    try:
        os_user.require_usable(os_user.resolve(user), work_root, [CHILD], inherited_environment())
    except ConfigurationError as refused:
        print(
            "  note: dbt runs as root here, because another OS user cannot read this checkout; clone into a folder that"
            f" everybody may enter, and it gets a user of its own. What was tried: {refused.happened}",
            flush=True,
        )
        return {}
    work_root.chmod(0o711)
    print(f"  dbt runs as the OS user {user}, which can read no password of this stack.", flush=True)
    return {"dbt_user": user, "work_root": str(work_root)}


def _taken() -> Iterator[int]:
    yield from (entry.pw_uid for entry in pwd.getpwall())
    yield from (entry.gr_gid for entry in grp.getgrall())
    for process in psutil.process_iter(["uids"]):
        if process.info["uids"] is not None:
            yield process.info["uids"].real
