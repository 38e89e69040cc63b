"""The dbt child process: reads its secret from an inherited pipe, then runs dbt in this very process.

Started as `python -I dbt_child.py SECRET_FD PARENT_PID -- DBT ARGUMENTS`. The secret is set in the environment after
exec and taken out of it when dbt has copied it, so it stands in nobody's /proc, that of dbt's own children included (the
resource tracker of multiprocessing lives as long as dbt, and shows what it inherited); the process is not dumpable, writes no core file, gains no right by a setuid
program, and ends with its parent, however that ends (a convenience: safety never depends on it). It imports nothing of
the provider.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from typing import Any

#: dbt hides the value of a variable with this prefix from its logs and artifacts.
SECRET_VARIABLE = "DBT_ENV_SECRET_DPONE_PASSWORD"  # noqa: S105  # the name of the variable, not a secret

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38


def main(arguments: list[str]) -> int:
    descriptor, parent, separator, *dbt_arguments = arguments
    if separator != "--":
        print("usage: dbt_child.py SECRET_FD PARENT_PID -- DBT ARGUMENTS", file=sys.stderr)
        return 2
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):
        return 2
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with os.fdopen(int(descriptor), "r", encoding="utf-8") as pipe:
        secret = pipe.read()
    if not secret:
        print("dpone: no credential arrived on the pipe; dbt was not started.", file=sys.stderr)
        return 2
    from dbt.cli.main import dbtRunner

    os.environ[SECRET_VARIABLE] = secret
    del secret
    result = dbtRunner(callbacks=[_forget]).invoke(dbt_arguments)
    if result.exception is not None:
        print(f"dpone: dbt stopped: {type(result.exception).__name__}: {result.exception}", file=sys.stderr)
        return 2
    return 0 if result.success else 1


def _forget(event: Any) -> None:
    """At dbt's first word it has copied its environment: what it starts from here on inherits no secret."""
    os.environ.pop(SECRET_VARIABLE, None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
