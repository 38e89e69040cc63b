"""Databases and schemas, and the names that stand between them."""

from __future__ import annotations

import pytest
from tsqldev.catalog.sysviews import declared
from tsqldev.errors import SqlError

from .support import Session


def test_each_database_has_its_own_objects(session: Session) -> None:
    session.run("CREATE TABLE dbo.t (i int)")
    session.run("CREATE DATABASE Other COLLATE Latin1_General_100_BIN2")
    session.use("Other")
    assert session.resolve("dbo.t") is None
    assert session.resolve("control.DBO.T") is not None
    assert session.resolve("Control..t") is not None
    session.run("CREATE TABLE dbo.t (c varchar(5))")
    assert session.table("dbo.t").columns[0].type.collation == "Latin1_General_100_BIN2"
    assert len(session.view("Control.sys.tables", "name")) == 1
    with pytest.raises(SqlError, match="'Nowhere' does not exist"):
        session.resolve("Nowhere.dbo.t")


def test_options_of_a_database(session: Session) -> None:
    session.run("ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON")
    session.run("ALTER DATABASE [Control] SET TRUSTWORTHY OFF")
    session.run("ALTER DATABASE [Control] SET RECOVERY SIMPLE WITH NO_WAIT")
    (row,) = [
        row
        for row in session.view(
            "sys.databases",
            "name, snapshot_isolation_state_desc, is_trustworthy_on, recovery_model_desc, collation_name",
        )
        if row[0] == "Control"
    ]
    assert row[1:] == ("ON", 0, "SIMPLE", "SQL_Latin1_General_CP1_CI_AS")
    shown = "delayed_durability, delayed_durability_desc"
    for number, durability in enumerate(("DISABLED", "ALLOWED", "FORCED")):
        session.run(f"ALTER DATABASE CURRENT SET DELAYED_DURABILITY = {durability}")
        assert (number, durability) in session.view("sys.databases", shown)
    assert session.refused("ALTER DATABASE CURRENT SET DELAYED_DURABILITY = SOMETIMES") == 102
    assert session.refused("ALTER DATABASE [Control] SET READ_ONLY") == 40000
    assert session.refused("CREATE DATABASE control") == 1801


def test_schemas(writer: Session) -> None:
    writer.run("CREATE SCHEMA [a b] AUTHORIZATION [writers]")
    assert writer.refused("CREATE SCHEMA [A B]") == 2714
    writer.run("CREATE TABLE [a b].t (i int)")
    assert writer.refused("DROP SCHEMA [a b]") == 3729
    writer.run("ALTER SCHEMA dbo TRANSFER [a b].t")
    writer.run("DROP SCHEMA [a b]")
    assert writer.view("INFORMATION_SCHEMA.TABLES", "TABLE_SCHEMA, TABLE_NAME") == [("dbo", "t")]
    writer.login("writer")
    assert writer.refused("CREATE SCHEMA mine") == 262


@pytest.mark.parametrize("view", sorted(declared()))
def test_every_catalog_view_can_be_read(writer: Session, view: tuple[str, str]) -> None:
    writer.run("CREATE TABLE dbo.t (i int IDENTITY PRIMARY KEY, s nvarchar(5) NULL)")
    info = writer.table(".".join(view))
    rows = writer.rows(f"select * from {info.relation} v")
    assert all(len(row) == len(info.columns) for row in rows)
    for column, values in zip(info.columns, zip(*rows, strict=True), strict=False):
        assert column.type.nullable or None not in values, column.name


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("CREATE FUNCTION dbo.f() RETURNS int AS BEGIN RETURN 1 END", 40000),
        ("CREATE TYPE dbo.x FROM int", 40000),
        ("CREATE SYNONYM dbo.s FOR dbo.t", 40000),
        ("GRANT ALL ON dbo.t TO public", 40000),
        ("CREATE TABLE dbo.t (i int", 102),
        ("CREATE TABLE dbo.t (i int) nonsense", 102),
        ("ALTER ROLE writers RENAME TO x", 102),
    ],
)
def test_what_is_unknown_is_refused(session: Session, statement: str, number: int) -> None:
    assert session.refused(statement) == number
