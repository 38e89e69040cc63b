"""What a caller may not see is in no catalog view and in no metadata function ("Metadata visibility configuration")."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytds
import pytest
from tsqldev.pytest_plugin import TsqlServer

from .test_security import PASSWORD, Run, runner

HIDDEN = [
    "CREATE TABLE dbo.t_hid (a_hid int IDENTITY NOT NULL CONSTRAINT pk_hid PRIMARY KEY, b_hid int CONSTRAINT df_hid DEFAULT 1,"
    " c_hid int CONSTRAINT ck_hid CHECK (c_hid > 0), d_hid AS b_hid + 1)",
    "CREATE TABLE dbo.u_hid (a_hid int CONSTRAINT fk_hid REFERENCES dbo.t_hid)",
    "CREATE INDEX ix_hid ON dbo.t_hid (b_hid)",
    "CREATE TRIGGER dbo.tr_hid ON dbo.t_hid AFTER INSERT AS DECLARE @x int",
    "CREATE VIEW dbo.v_hid AS SELECT a_hid FROM dbo.t_hid",
    "CREATE PROCEDURE dbo.p_hid @q_hid int AS SELECT @q_hid",
    "EXEC sp_addextendedproperty 'e_hid', 'value', 'SCHEMA', 'dbo', 'TABLE', 't_hid'",
    "CREATE ROLE r_hid; CREATE USER w_hid WITHOUT LOGIN; GRANT SELECT ON dbo.t_hid TO r_hid; ALTER ROLE r_hid ADD MEMBER w_hid",
]


@pytest.fixture
def admin(tsql_server: TsqlServer, tsql_database: str) -> Iterator[Run]:
    with closing(tsql_server.connect("python-tds", database=tsql_database)) as connection:
        run = runner(connection)
        for batch in HIDDEN:
            run(batch)
        yield run


@pytest.fixture
def stranger(tsql_server: TsqlServer, tsql_database: str, admin: Run) -> Iterator[Run]:
    name = f"stranger_{secrets.token_hex(4)}"
    admin(f"CREATE LOGIN [{name}] WITH PASSWORD = N'{PASSWORD}'; CREATE USER [{name}] FOR LOGIN [{name}]")
    options: dict[str, Any] = {"user": name, "password": PASSWORD, "database": tsql_database}
    with closing(tsql_server.connect("python-tds", **options)) as connection:
        yield runner(connection)
    # A session ends a moment after its client has hung up, and keeps its login until then.
    deadline = time.monotonic() + 20
    while admin(f"SELECT 1 FROM sys.dm_exec_sessions WHERE login_name = '{name}'") and time.monotonic() < deadline:
        time.sleep(0.05)
    admin(f"DROP USER [{name}]; USE master; DROP LOGIN [{name}]")


def test_no_catalog_view_names_what_is_hidden(admin: Run, stranger: Run) -> None:
    listed = admin("SELECT SCHEMA_NAME(schema_id), name FROM sys.all_objects WHERE schema_id IN (3, 4) AND type = 'V'")
    ids = {row[0] for row in admin("SELECT object_id FROM sys.objects WHERE name LIKE '%[_]hid'")}
    assert len(listed) > 50 and len(ids) == 9
    read = 0
    for schema, view in listed:
        try:
            rows = stranger(f"SELECT * FROM {schema}.{view}")
        except pytds.tds_base.DatabaseError as error:
            assert getattr(error, "number", 0) in (297, 300)  # the whole view is for others
            continue
        read += 1
        named = [row for row in rows for value in row if isinstance(value, str) and "_hid" in value.lower()]
        assert not named, (view, named)
        if view != "database_permissions":
            assert not [row for row in rows if ids & {value for value in row if isinstance(value, int)}], view
    assert read > 50


def test_no_metadata_function_answers_about_what_is_hidden(admin: Run, stranger: Run) -> None:
    number = admin("SELECT OBJECT_ID('dbo.t_hid')")[0][0]
    for expression in (
        "OBJECT_ID('dbo.t_hid')", f"OBJECT_NAME({number})", f"OBJECT_SCHEMA_NAME({number})", f"COL_NAME({number}, 1)",
        "COL_LENGTH('dbo.t_hid', 'a_hid')", f"COLUMNPROPERTY({number}, 'a_hid', 'IsIdentity')",
        f"OBJECTPROPERTY({number}, 'IsTable')", f"INDEXPROPERTY({number}, 'pk_hid', 'IsUnique')", "IDENT_CURRENT('dbo.t_hid')",
        "OBJECT_DEFINITION(OBJECT_ID('dbo.p_hid'))",
    ):  # fmt: skip
        assert admin(f"SELECT {expression}")[0][0] is not None, expression
        assert stranger(f"SELECT {expression}") == [(None,)], expression


def test_one_right_on_an_object_shows_it_and_its_parts_only(admin: Run, stranger: Run) -> None:
    admin("GRANT SELECT ON dbo.t_hid TO public")
    assert stranger("SELECT name FROM sys.objects WHERE name LIKE '%[_]hid' ORDER BY name") == [
        ("ck_hid",), ("df_hid",), ("pk_hid",), ("t_hid",), ("tr_hid",)]  # fmt: skip
    assert stranger("SELECT COUNT(*) FROM sys.columns WHERE object_id = OBJECT_ID('dbo.t_hid')") == [(4,)]
    assert stranger("SELECT definition FROM sys.check_constraints") == [(None,)]
    admin("GRANT VIEW DEFINITION ON dbo.t_hid TO public")
    assert stranger("SELECT definition FROM sys.check_constraints") == [("([c_hid]>(0))",)]
