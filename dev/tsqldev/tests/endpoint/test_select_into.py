"""SELECT ... INTO: the columns of the new table, as their expressions make them."""

from __future__ import annotations

import pytest
from tsqldev.pytest_plugin import TsqlServer


def test_a_converted_value_makes_a_column_that_takes_null(tsql_server: TsqlServer, tsql_database: str) -> None:
    connection = tsql_server.connect(database=tsql_database)
    connection.execute(
        "SELECT 1 AS literal, CAST(1 AS bigint) AS converted, ISNULL(CAST(1 AS bigint), 0) AS certain, "
        "CONVERT(varchar(5), N'a') AS styled INTO dbo.made"
    )
    found = connection.execute(
        "SELECT name, is_nullable FROM sys.columns WHERE object_id = OBJECT_ID('dbo.made') ORDER BY column_id"
    ).fetchall()
    assert [tuple(row) for row in found] == [
        ("literal", False),
        ("converted", True),
        ("certain", False),
        ("styled", True),
    ]
    connection.close()


def test_methods_of_xml_are_refused_by_name(tsql_server: TsqlServer) -> None:
    connection = tsql_server.connect()
    with pytest.raises(Exception, match=r"XML method value"):
        connection.execute("SELECT CAST('<x>1</x>' AS xml).value('(/x)[1]', 'int')")
    connection.close()
