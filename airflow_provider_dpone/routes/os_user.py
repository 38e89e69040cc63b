"""Another OS user for the dbt child: who it is, whether this process may become it, and whether it can run dbt at all.

A model's SQL and macros are somebody's program. As a user of its own the child can read neither this process's memory
and environment nor the files in which the passwords of standing accounts are kept. The switch is made between fork and
exec, without supplementary groups. Everything is asked before admission: a user that cannot work is refused by name.
"""

from __future__ import annotations

import grp
import os
import pwd
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_dpone.contracts.errors import ConfigurationError

_PROBE = Path(__file__).with_name("os_user_probe.py")
_PROBE_SECONDS = 60.0
_HIGHEST_ID = 2**32 - 2

#: What the switch, the hand-over of folders, their way back, and the end of the child's processes need.
_CAPABILITIES = {"CAP_CHOWN": 0, "CAP_DAC_OVERRIDE": 1, "CAP_KILL": 5, "CAP_SETGID": 6, "CAP_SETUID": 7}

#: Modules that the child imports by itself; finding them does not load them.
_MODULES = ("dbt.cli", "dbt.adapters", "mssql_python")


@dataclass(frozen=True, slots=True, kw_only=True)
class OsUser:
    """A user and its one group, by number. `named` is what the setting said."""

    uid: int
    gid: int
    named: str

    def own(self, path: Path) -> None:
        """Give a file or folder to the user; a link is given itself, not what it leads to."""
        os.chown(path, self.uid, self.gid, follow_symlinks=False)


def resolve(named: str) -> OsUser:
    """The user of the setting: `name`, `name:group`, or numbers in their place. A bare number needs a group.

    root, and this process's own user, are refused: they would promise a separation that is not there.
    """
    user, colon, group = named.partition(":")
    uid = _number(named, user, "user", lambda name: pwd.getpwnam(name).pw_uid)
    if colon:
        gid = _number(named, group, "group", lambda name: grp.getgrnam(name).gr_gid)
    else:
        try:
            gid = pwd.getpwuid(uid).pw_gid
        except KeyError as err:
            raise _refused(
                "dbt_user_group",
                f"{named!r} has no entry in the user database, so its group is not known.",
                "write uid:gid.",
            ) from err
    if 0 in (uid, gid):
        raise _refused("dbt_user_root", f"{named!r} is root, or of root's group.", "name a user without rights.")
    if uid == os.geteuid():
        raise _refused(
            "dbt_user_same", f"{named!r} is the user that this process runs as already.", "name another, or none."
        )
    return OsUser(uid=uid, gid=gid, named=named)


def require_usable(user: OsUser, work_root: Path, files: Sequence[Path], environment: Mapping[str, str]) -> None:
    """Refuse a user that this process cannot become, or that cannot start the interpreter and read what dbt needs.

    `work_root` is made if it is missing: the user must be able to pass through it and everything above it.
    `environment` is what the child will have: it may say where the interpreter's libraries are.
    """
    missing = missing_capabilities()
    if missing:
        raise _refused(
            "dbt_user_switch",
            f"this process (uid {os.geteuid()}) may not become {user.named!r}: it lacks {', '.join(missing)}.",
            "run the worker as root, or with these capabilities; or take the setting away.",
        )
    _make(work_root)
    try:
        probe = subprocess.run(
            [sys.executable, "-I", str(_PROBE), str(work_root), *map(str, files), "--", *_MODULES],
            cwd="/",
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_SECONDS,
            check=False,
            user=user.uid,
            group=user.gid,
            extra_groups=[],
        )
    except subprocess.TimeoutExpired as err:
        raise _refused("dbt_user_probe", f"nothing answered as {user.named!r} in {_PROBE_SECONDS:.0f} s.") from err
    except OSError as err:
        if err.filename == sys.executable:
            raise _unreadable(user, f"the interpreter {_interpreter()} ({err.strerror})") from err
        raise _refused(
            "dbt_user_switch",
            f"this process could not become {user.named!r} ({user.uid}:{user.gid}): {err.strerror}.",
            "whether both numbers are mapped into this container.",
        ) from err
    if probe.returncode != 0:
        said = "; ".join((probe.stdout or probe.stderr).split("\n")[:5]).strip("; ")
        raise _unreadable(user, said or f"something (the probe ended with {probe.returncode})")


def missing_capabilities() -> list[str]:
    """The capabilities that this process would need and does not have; without /proc, root is believed to have all."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return [] if os.geteuid() == 0 else sorted(_CAPABILITIES)
    (effective,) = (int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:"))
    return sorted(name for name, bit in _CAPABILITIES.items() if not effective >> bit & 1)


def _make(work_root: Path) -> None:
    try:
        work_root.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise ConfigurationError(
            "work_root",
            happened=f"the folder for artifacts of attempts could not be made: {err}.",
            check="[dpone] work_root, and that the worker may write there.",
        ) from err


def _number(named: str, part: str, what: str, look_up: Callable[[str], int]) -> int:
    if part.isascii() and part.isdigit():
        number = int(part)
        if number > _HIGHEST_ID:
            raise _refused("dbt_user_unknown", f"{named!r} names no {what}: the number is too large.")
        return number
    try:
        return look_up(part)
    except (KeyError, ValueError) as err:
        raise _refused(
            "dbt_user_unknown", f"there is no {what} {part!r} on this machine.", "the name, or write uid:gid."
        ) from err


def _unreadable(user: OsUser, what: str) -> ConfigurationError:
    return _refused(
        "dbt_user_reach",
        f"{user.named!r} ({user.uid}:{user.gid}) cannot use {what}.",
        "that every folder on the way lets others pass, and that the installation is readable for others"
        " ([dpone] work_root may name a folder elsewhere).",
    )


def _interpreter() -> str:
    """The path that is started, and where its link leads: the way to either may be closed."""
    target = os.path.realpath(sys.executable)
    return sys.executable if target == sys.executable else f"{sys.executable}, which is {target}"


def _refused(reason: str, happened: str, check: str = "") -> ConfigurationError:
    return ConfigurationError(
        reason,
        happened=f"[dpone] dbt_user: {happened}",
        not_done="nothing was admitted and dbt was not started.",
        check=check or "the setting.",
    )
