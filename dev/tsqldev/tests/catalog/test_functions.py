"""Metadata functions, each with a name that exists, one that does not, and none."""

from __future__ import annotations

from typing import Any

import pytest

from .support import Session

# (call, the expected answer); the database has dbo.t (a int identity primary key, b nvarchar(10) null), s and p.
ANSWERS: list[tuple[str, Any]] = [
    ("db_name(null)", "Control"),
    ("db_name(1)", "master"),
    ("db_name(99)", None),
    ("db_id('MASTER')", 1),
    ("db_id('tempdb')", 2),
    ("db_id('nowhere')", None),
    ("schema_id('DBO')", 1),
    ("schema_id('s')", 5),
    ("schema_id(null)", 1),
    ("schema_id('nowhere')", None),
    ("schema_name(5)", "s"),
    ("schema_name(null)", "dbo"),
    ("type_id('int')", 56),
    ("type_id('[sys].[nvarchar]')", 231),
    ("type_id('nothing')", None),
    ("type_name(256)", "sysname"),
    ("object_name(sys.object_id('T', null), null)", "t"),
    ("object_schema_name(sys.object_id('[Control].[dbo].[t]', 'U'), null)", "dbo"),
    ("object_id('dbo.t', 'V')", None),
    ("object_id('control..p', 'P') is not null", True),
    ("object_id('[dbo.t]', null)", None),
    ("object_id('sys.tables', null) is not null", True),
    ("col_name(sys.object_id('dbo.t', null), 2)", "b"),
    ("col_length('dbo.t', 'B')", 20),
    ("col_length('dbo.t', 'z')", None),
    ("columnproperty(sys.object_id('t', null), 'a', 'IsIdentity')", 1),
    ("columnproperty(sys.object_id('t', null), 'b', 'AllowsNull')", 1),
    ("objectproperty(sys.object_id('t', null), 'TableHasPrimaryKey')", 1),
    ("objectproperty(sys.object_id('t', null), 'NoSuchProperty')", None),
    ("indexproperty(sys.object_id('t', null), 'PK_T', 'IsClustered')", 1),
    ("index_col('dbo.t', 1, 1)", "a"),
    ("databasepropertyex('control', 'Collation')", "SQL_Latin1_General_CP1_CI_AS"),
    ("databasepropertyex('nowhere', 'Collation')", None),
    ("serverproperty('ProductMajorVersion')", "16"),
    ("serverproperty('NoSuchProperty')", None),
    ("suser_sid('sa', null)", b"\x01"),
    ("suser_sid(null, null)", b"\x01"),
    ("suser_sid('nobody', null)", None),
    ("suser_sname(null)", "sa"),
    ("suser_sname('\\x01'::bytea)", "sa"),
    ("suser_id('SA')", 1),
    ("suser_name(1)", "sa"),
    ("user_name(null)", "dbo"),
    ("user_name(0)", "public"),
    ("database_principal_id('db_owner')", 16384),
    ("database_principal_id(null)", 1),
    ("database_principal_id('nobody')", None),
    ("is_member('db_owner')", 1),
    ("is_member('nothing')", None),
    ("is_srvrolemember('sysadmin', null)", 1),
    ("is_srvrolemember('sysadmin', 'nobody')", None),
    ("is_rolemember('db_owner', 'guest')", 0),
    ("has_dbaccess('control')", 1),
    ("has_dbaccess('nowhere')", None),
    ("ident_seed('dbo.t')", 5),
    ("ident_incr('dbo.t')", 2),
    ("object_definition(sys.object_id('p', null))", "CREATE PROCEDURE dbo.p AS SELECT 1"),
    ("collationproperty('Latin1_General_100_BIN2', 'CodePage')", 1252),
]


@pytest.mark.parametrize(("call", "answer"), ANSWERS)
def test_answers(session: Session, call: str, answer: Any) -> None:
    session.run("CREATE SCHEMA s")
    session.run("CREATE TABLE dbo.t (a int IDENTITY(5, 2) CONSTRAINT pk_t PRIMARY KEY, b nvarchar(10) NULL)")
    session.run("CREATE PROCEDURE dbo.p AS SELECT 1")
    assert session.rows(f"select sys.{call}") == [(answer,)]


def test_each_function_of_the_registry_exists_with_its_arguments(session: Session) -> None:
    for function in session.catalog.functions.values():
        arguments = ", ".join(f"null::{argument.postgres}" for argument in function.arguments)
        answer = session.value(f"select pg_typeof(sys.{function.sql}({arguments}))::text")
        expected = (
            "text" if function.result_of else session.value(f"select pg_typeof(null::{function.result.postgres})::text")
        )
        assert answer == expected, function.name


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a", ["a"]),
        ("[a.b].[c]]d]", ["a.b", "c]d"]),
        ('"a""b"..c', ['a"b', "", "c"]),
        (" a . b ", ["a", "b"]),
        ("[a", None),
        ("[a]b", None),
    ],
)
def test_names_are_taken_apart_as_t_sql_does(session: Session, name: str, parts: list[str] | None) -> None:
    assert session.value("select meta.parse_name(%s)", name) == parts
