"""Records on which server a profile ran, by the server's own words, and through which driver."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata
from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def _engine(tsql_server: Any, record_testsuite_property: Callable[[str, object], None]) -> None:
    connection = tsql_server.connect()
    try:
        query = "SELECT @@VERSION, CONVERT(nvarchar(128), SERVERPROPERTY('ProductVersion'))"
        version_text, product_version = connection.execute(query).fetchone()
    finally:
        connection.close()
    record_testsuite_property("engine_version_text", " ".join(str(version_text).split()))
    record_testsuite_property("engine_product_version", str(product_version))
    versions = (f"{package} {metadata.version(package)}" for package in ("mssql-python", "mssql-python-odbc"))
    record_testsuite_property("driver", ", ".join(versions))
