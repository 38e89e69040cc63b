"""Another OS user for tests, and an interpreter that it may run: the one of the tests may lie in a home that is closed."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider_dpone.routes.dbt_process import CHILD
from airflow_provider_dpone.routes.os_user import OsUser, missing_capabilities

#: Whether this process can become somebody else at all: as a rule, whether it is root.
CAN_SWITCH = not missing_capabilities()

_LEFT_OUT = shutil.ignore_patterns("test", "idlelib", "site-packages", "dist-packages", "tkinter", "turtledemo")


def unused_user() -> OsUser:
    """A number that no user, no group and no process of this machine has."""
    taken = {entry.pw_uid for entry in pwd.getpwall()} | {entry.gr_gid for entry in grp.getgrall()}
    taken |= {path.stat().st_uid for path in Path("/proc").glob("[0-9]*") if path.exists()}
    number = next(number for number in range(60706, 61184) if number not in taken)
    return OsUser(uid=number, gid=number, named=f"{number}:{number}")


def run_as(user: OsUser, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        user=user.uid,
        group=user.gid,
        extra_groups=[],
        cwd="/",
        env={"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def provider_is_open(user: OsUser) -> bool:
    """Whether `user` may read this checkout: one in a home that is closed, it may not, and is refused by name."""
    return CAN_SWITCH and run_as(user, "test", "-r", str(CHILD)).returncode == 0


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that every user may pass and list; pytest's own are closed."""
    folder = Path(tempfile.mkdtemp(prefix="dpone-other-user-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def interpreter_for(user: OsUser, folder: Path, patch: pytest.MonkeyPatch) -> str:
    """This interpreter, or a copy of it with the same packages in `folder`, so that `user` can run it.

    The copy needs LD_LIBRARY_PATH when the interpreter is a shared library; it is set through `patch`.
    """
    try:
        if run_as(user, sys.executable, "-I", "-c", "import dbt").returncode == 0:
            return sys.executable
    except PermissionError:
        pass  # the reason for the copy
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    (folder / "bin").mkdir()
    copy = folder / "bin" / version
    _link(os.path.realpath(sys.executable), str(copy))
    library = folder / "lib" / version
    shutil.copytree(sysconfig.get_path("stdlib"), library, ignore=_LEFT_OUT, symlinks=True, copy_function=_link)
    for shared in Path(sys.base_prefix, "lib").glob("libpython3*.so*"):
        _link(os.path.realpath(shared), str(folder / "lib" / shared.name))
    patch.setenv("LD_LIBRARY_PATH", str(folder / "lib"), prepend=os.pathsep)
    packages = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    added = "\n".join(f"site.addsitedir({path!r})" for path in sorted(packages))
    # Not a folder for packages: distributions name that differently.
    (library / "sitecustomize.py").unlink(missing_ok=True)
    (library / "sitecustomize.py").write_text(f"import site\n\n{added}\n", encoding="utf-8")
    return str(copy)


def _link(source: str, target: str) -> None:
    """Another name for the same file where the file system allows it: much quicker than a copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
