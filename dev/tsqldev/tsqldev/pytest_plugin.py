"""Fixtures for tests against the endpoint, or against a real server.

Without MSSQL_TEST_DSN in the environment the endpoint is started once for the session. With it (an ODBC-style text:
`SERVER=host,port;UID=sa;PWD=...`) the same tests run against that server, whose login must be a sysadmin. The password
may stand in the first line of the file MSSQL_TEST_PASSWORD_FILE instead.
What tests send is checked against the corpus: see `tsqldev.pytest_corpus`.
"""

from __future__ import annotations

import atexit
import functools
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tsqldev.process import served
from tsqldev.pytest_corpus import pytest_addoption, pytest_runtest_protocol, traced_batches

__all__ = [
    "CLIENTS",
    "DRIVERS",
    "TsqlServer",
    "cancelling",
    "odbc_driver",
    "pytest_addoption",
    "pytest_runtest_protocol",
    "traced_batches",
]

DRIVERS = ("mssql-python", "pyodbc", "pymssql", "python-tds")
# The same, and pyodbc with the ODBC driver of FreeTDS.
CLIENTS = (*DRIVERS, "pyodbc-freetds")


@dataclass(frozen=True, slots=True)
class TsqlServer:
    """A server to test against. `emulation` is false for a real one."""

    host: str
    port: int
    sa_password: str = field(repr=False)
    sa: str = "sa"
    emulation: bool = True

    def connect(
        self,
        driver: str = "mssql-python",
        *,
        user: str | None = None,
        password: str | None = None,
        database: str = "master",
        autocommit: bool = True,
        encrypt: bool = True,
        timeout: int = 30,
    ) -> Any:
        """A DB-API connection through one of CLIENTS, as `sa` by default. `timeout` is that of the login."""
        user = user or self.sa
        password = self.sa_password if password is None else password
        if driver == "pyodbc-freetds":
            return self._freetds(user, password, database, autocommit, encrypt)
        if driver in ("mssql-python", "pyodbc"):
            return self._odbc(driver, user, password, database, autocommit, encrypt)
        if driver == "pymssql":
            import pymssql

            return pymssql.connect(
                server=self.host,
                port=str(self.port),
                user=user,
                password=password,
                database=database,
                autocommit=autocommit,
                login_timeout=timeout,
            )
        if driver == "python-tds":
            import pytds

            return pytds.connect(
                dsn=self.host,
                port=self.port,
                user=user,
                password=password,
                database=database,
                autocommit=autocommit,
                login_timeout=timeout,
            )
        raise ValueError(f"no such driver: {driver}")

    def _odbc(self, driver: str, user: str, password: str, database: str, autocommit: bool, encrypt: bool) -> Any:
        text = (
            f"SERVER={self.host},{self.port};UID={_braced(user)};PWD={_braced(password)};DATABASE={_braced(database)};"
            f"Encrypt={'yes' if encrypt else 'no'};TrustServerCertificate=yes;"
        )
        if driver == "mssql-python":
            import mssql_python

            mssql_python.pooling(enabled=False)
            return mssql_python.connect(text, autocommit=autocommit)
        import pyodbc

        pyodbc.pooling = False
        return pyodbc.connect(f"DRIVER={odbc_driver()};{text}", autocommit=autocommit)

    def _freetds(self, user: str, password: str, database: str, autocommit: bool, encrypt: bool) -> Any:
        import pyodbc

        pyodbc.pooling = False
        text = (
            f"DRIVER={freetds_driver()};SERVER={self.host};PORT={self.port};UID={_braced(user)};PWD={_braced(password)};"
            f"DATABASE={_braced(database)};TDS_Version=7.4;ClientCharset=UTF-8;"
            f"Encryption={'require' if encrypt else 'off'};"
        )
        return pyodbc.connect(text, autocommit=autocommit)


def _braced(value: str) -> str:
    return "{" + value.replace("}", "}}") + "}"


@functools.cache
def odbc_driver() -> str:
    """Microsoft's ODBC driver as the wheel mssql-python-odbc brings it, for use under unixODBC."""
    import importlib.util
    import platform

    spec = importlib.util.find_spec("mssql_python_odbc")
    if spec is None or spec.origin is None:
        raise FileNotFoundError(
            "The package mssql-python-odbc, which brings Microsoft's ODBC driver, is not installed."
        )
    bundle = Path(spec.origin).parent / "libs" / "linux" / "debian_ubuntu" / platform.machine()
    if not str(bundle).isascii():
        # unixODBC narrows the connection string: a folder with another letter in its name is not found.
        plain = tempfile.mkdtemp(prefix="tsqldev-odbc-")
        atexit.register(shutil.rmtree, plain)
        bundle = Path(plain, "driver")
        bundle.symlink_to(Path(spec.origin).parent / "libs" / "linux" / "debian_ubuntu" / platform.machine())
    return str(next((bundle / "lib").glob("libmsodbcsql-*.so*")))


@contextmanager
def cancelling(cursor: Any, every: float = 0.3) -> Iterator[None]:
    """Cancel what the body executes on a pyodbc cursor, from another thread; again, should it not have begun yet.

    The body's statement ends while the driver is still inside its cancel. Whoever frees the handles then, by closing
    the cursor or the connection, takes the process down: so this ends only when the cancel has returned.
    """
    ended = threading.Event()

    def cancel() -> None:
        while not ended.wait(every):
            cursor.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    try:
        yield
    finally:
        ended.set()
        canceller.join()


def freetds_driver() -> str:
    """The ODBC driver of FreeTDS as Debian's package tdsodbc brings it."""
    import sysconfig

    folder = Path("/usr/lib", str(sysconfig.get_config_var("MULTIARCH") or ""), "odbc")
    driver = folder / "libtdsodbc.so"
    if not driver.exists():
        raise FileNotFoundError(f"{driver} is missing: the Debian package tdsodbc is not installed.")
    return str(driver)


@pytest.fixture(scope="session")
def tsql_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TsqlServer]:
    """A server with a sysadmin login."""
    if dsn := os.environ.get("MSSQL_TEST_DSN"):
        parts = dict(part.split("=", 1) for part in dsn.split(";") if "=" in part)
        given = {name.strip().upper(): value.strip() for name, value in parts.items()}
        host, _, listens = given["SERVER"].removeprefix("tcp:").partition(",")
        file = os.environ.get("MSSQL_TEST_PASSWORD_FILE")
        password = Path(file).read_text(encoding="utf-8").split("\n", 1)[0] if file else given["PWD"]
        yield TsqlServer(host, int(listens or "1433"), password, given["UID"], emulation=False)
        return
    # Every character that a connection string, a shell or a log could trip over.
    password = secrets.token_urlsafe(12) + "é;'\"{}[]= %@1aA"
    folder = tmp_path_factory.mktemp("tsqldev")
    with served(folder, password) as endpoint:
        yield TsqlServer("127.0.0.1", endpoint.port, password)


@pytest.fixture
def tsql_database(tsql_server: TsqlServer) -> Iterator[str]:
    """The name of a fresh database, dropped at the end."""
    name = f"test_{secrets.token_hex(6)}"
    connection = tsql_server.connect()
    try:
        connection.execute(f"CREATE DATABASE [{name}]")
        yield name
        connection.execute(f"DROP DATABASE [{name}]")
    finally:
        connection.close()
