"""Procedures and triggers: their text to the byte, their options, their switches."""

from __future__ import annotations

import pytest
from tsqldev.interfaces import ModuleInfo, ViewInfo

from .support import Session


def test_a_definition_is_the_text_that_was_sent(session: Session) -> None:
    session.run("CREATE TABLE dbo.t (i int)")
    text = "-- why\r\nCREATE TRIGGER dbo.tr ON dbo.t AFTER INSERT, UPDATE, DELETE AS\r\nBEGIN\r\n  THROW 51000, N'ü', 1\r\nEND\n "
    session.run(text)
    assert session.view("sys.sql_modules", "definition, is_schema_bound, execute_as_principal_id") == [(text, 0, None)]
    (trigger,) = session.table("dbo.t").triggers
    module = session.catalog.module(trigger.object_id)
    assert isinstance(module, ModuleInfo)
    assert (module.definition, module.body_line) == (text, 3)
    assert module.body == text[text.index("BEGIN") :]


def test_alter_is_stored_as_create(session: Session) -> None:
    session.run("CREATE PROCEDURE dbo.p AS SELECT 1")
    session.run("ALTER PROCEDURE dbo.p AS SELECT 2")
    assert session.view("sys.sql_modules", "definition") == [("CREATE PROCEDURE dbo.p AS SELECT 2",)]
    session.run("CREATE OR ALTER PROCEDURE dbo.p AS SELECT 3")
    assert session.view("sys.sql_modules", "definition") == [("CREATE   PROCEDURE dbo.p AS SELECT 3",)]
    assert session.refused("CREATE PROCEDURE dbo.p AS SELECT 4") == 2714
    assert session.refused("ALTER PROCEDURE dbo.q AS SELECT 4") == 208


def test_procedure_parameters_and_identity(session: Session) -> None:
    session.run("CREATE USER runner WITHOUT LOGIN")
    session.run(
        "CREATE PROCEDURE dbo.p @a int, @b nvarchar(20) = N'x', @c varbinary(max) OUTPUT"
        " WITH EXECUTE AS 'runner' AS SET @c = 0x"
    )
    module = session.resolve("dbo.p")
    assert isinstance(module, ModuleInfo)
    assert [(column.name, str(column.type), default, output) for column, default, output in module.parameters] == [
        ("@a", "int", None, False),
        ("@b", "nvarchar(20)", "N'x'", False),
        ("@c", "varbinary(max)", None, True),
    ]
    assert module.execute_as == "runner"


def test_triggers_are_switched_off_and_on(session: Session) -> None:
    session.run("CREATE TABLE dbo.t (i int)")
    session.run("CREATE TRIGGER dbo.tr ON dbo.t INSTEAD OF INSERT, DELETE AS RETURN")
    session.run("DISABLE TRIGGER dbo.tr ON dbo.t")
    (trigger,) = session.table("dbo.t").triggers
    assert (trigger.disabled, trigger.instead_of, trigger.actions) == (True, True, {"INSERT", "DELETE"})
    session.run("ALTER TABLE dbo.t ENABLE TRIGGER ALL")
    assert session.view("sys.triggers", "name, is_disabled, is_instead_of_trigger") == [("tr", 0, 1)]
    assert session.refused("CREATE TRIGGER dbo.tr2 ON dbo.t INSTEAD OF DELETE AS RETURN") == 2111
    assert session.refused("DISABLE TRIGGER dbo.other ON dbo.t") == 4920
    assert session.view("sys.trigger_events", "type_desc") == [("DELETE",), ("INSERT",)]


def test_a_logon_trigger_is_the_servers(writer: Session) -> None:
    text = "CREATE TRIGGER gate ON ALL SERVER WITH EXECUTE AS N'writer' FOR LOGON AS ROLLBACK"
    writer.run(text)
    (module,) = writer.catalog.logon_triggers()
    assert (module.kind, module.execute_as, module.body) == ("LOGON TRIGGER", "writer", "ROLLBACK")
    assert writer.view("sys.server_sql_modules", "definition") == [(text,)]
    writer.run("DISABLE TRIGGER gate ON ALL SERVER")
    assert writer.catalog.logon_triggers() == ()
    writer.login("writer")
    assert writer.view("sys.server_triggers", "name") == []
    assert writer.refused("DROP TRIGGER gate ON ALL SERVER") == 3701
    writer.login("sa")
    writer.run("DROP TRIGGER gate ON ALL SERVER")


def test_the_definition_is_hidden_from_those_who_may_only_run_it(writer: Session) -> None:
    writer.run("CREATE PROCEDURE dbo.p AS SELECT 1")
    writer.run("GRANT EXECUTE ON dbo.p TO writer")
    writer.login("writer")
    assert writer.view("sys.procedures", "name") == [("p",)]
    assert writer.view("sys.sql_modules", "definition") == [(None,)]
    assert writer.value("select sys.object_definition(sys.object_id('dbo.p', 'P'))") is None


def test_extended_properties(session: Session) -> None:
    session.run("CREATE TABLE dbo.t (i int)")
    levels = (("SCHEMA", "dbo"), ("TABLE", "t"), ("COLUMN", "i"))
    session.ddl.extended_property("ADD", "MS_Description", "a number", levels, session.context())
    session.ddl.extended_property("UPDATE", "MS_Description", "the number", levels, session.context())
    assert session.view("sys.extended_properties", "class, minor_id, name, value") == [
        (1, 1, "MS_Description", "the number")
    ]
    session.run("DROP TABLE dbo.t")
    assert session.view("sys.extended_properties", "name") == []


def test_a_view_has_columns_and_dependencies(session: Session) -> None:
    session.run("CREATE TABLE dbo.t (a int NOT NULL, b nvarchar(10))")
    session.run("CREATE VIEW dbo.v (x, y) AS WITH c AS (SELECT * FROM [Control].[dbo].[t]) SELECT a, UPPER(b) FROM c;")
    view = session.resolve("dbo.v")
    assert isinstance(view, ViewInfo)
    assert [(c.name, str(c.type)) for c in view.columns] == [("x", "int"), ("y", "nvarchar(10)")]
    assert view.select.startswith("WITH c AS") and view.select.endswith("FROM c")
    assert session.view(
        "sys.sql_expression_dependencies", "referenced_database_name, referenced_schema_name, referenced_entity_name"
    ) == [("Control", "dbo", "t")]
    session.run("ALTER TABLE dbo.t ALTER COLUMN b nvarchar(20)")
    session.ddl.refresh_view("dbo.v", session.context())
    view = session.resolve("dbo.v")
    assert isinstance(view, ViewInfo)
    assert [(c.name, str(c.type)) for c in view.columns] == [("x", "int"), ("y", "nvarchar(20)")]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("CREATE VIEW dbo.v AS SELECT a, a FROM dbo.t", 4506),
        ("CREATE VIEW dbo.v AS SELECT a + 1 FROM dbo.t", 4511),
        ("CREATE VIEW dbo.v (x) AS SELECT a, b FROM dbo.t", 8158),
        ("CREATE VIEW dbo.v AS SELECT a FROM dbo.absent", 208),
        ("CREATE VIEW Control.dbo.v AS SELECT a FROM dbo.t", 166),
        ("CREATE VIEW dbo.t AS SELECT 1 AS a", 2714),
        ("CREATE VIEW dbo.v WITH ENCRYPTION AS SELECT a FROM dbo.t", 40000),
        ("ALTER VIEW dbo.v AS SELECT a FROM dbo.t", 208),
    ],
)
def test_views_that_are_refused(session: Session, text: str, number: int) -> None:
    session.run("CREATE TABLE dbo.t (a int, b int)")
    assert session.refused(text) == number
