"""Triggers: what they see, what their errors do, and who may change what under them."""

from __future__ import annotations

import pytest

from .session_client import Client

STATE = "SELECT @@TRANCOUNT, XACT_STATE()"


@pytest.fixture
def t(one: Client) -> Client:
    one.run("CREATE TABLE t (id int NOT NULL PRIMARY KEY, v varchar(20) NULL)")
    one.run("CREATE TABLE log (n int IDENTITY, what varchar(20), ins int, del int, tran_count int)")
    return one


def test_inserted_and_deleted(t: Client) -> None:
    t.run(
        "CREATE TRIGGER tr ON t AFTER INSERT, UPDATE, DELETE AS "
        "INSERT log (what, ins, del, tran_count) SELECT CASE WHEN EXISTS (SELECT 1 FROM inserted) THEN"
        " CASE WHEN EXISTS (SELECT 1 FROM deleted) THEN 'update' ELSE 'insert' END ELSE 'delete' END,"
        " (SELECT COUNT(*) FROM inserted), (SELECT COUNT(*) FROM deleted), @@TRANCOUNT"
    )
    t.run("INSERT t VALUES (1, 'a'), (2, 'b')")
    t.run("UPDATE t SET v = 'c' WHERE id <= 2")
    t.run("DELETE t WHERE id = 1")
    t.run("DELETE t WHERE id = 99")
    assert t.rows("SELECT what, ins, del, tran_count FROM log ORDER BY n") == [
        ("insert", 2, 0, 1),
        ("update", 2, 2, 1),
        ("delete", 0, 1, 1),
        ("delete", 0, 0, 1),
    ]


def test_throw_in_a_trigger_undoes_statement_and_transaction(t: Client) -> None:
    t.run("CREATE TRIGGER tr ON t AFTER INSERT AS IF EXISTS (SELECT 1 FROM inserted WHERE id = 2) THROW 51000, 'NO', 1")
    assert t.error("BEGIN TRAN; INSERT t VALUES (1, 'a'); INSERT t VALUES (2, 'b'); INSERT t VALUES (3, 'c')") == 51000
    assert t.row(STATE) == (0, 0)
    assert t.rows("SELECT id FROM t") == []


def test_throw_in_a_trigger_inside_a_try_dooms(t: Client) -> None:
    t.run("CREATE TRIGGER tr ON t AFTER INSERT AS THROW 51000, 'NO', 1")
    assert t.row(
        "BEGIN TRAN; BEGIN TRY INSERT t VALUES (1, 'a') END TRY"
        " BEGIN CATCH SELECT ERROR_NUMBER(), ERROR_PROCEDURE(), XACT_STATE(); ROLLBACK END CATCH"
    ) == (51000, "tr", -1)


def test_rollback_in_a_trigger_ends_the_batch(t: Client) -> None:
    t.run(
        "CREATE TRIGGER tr ON t AFTER INSERT AS BEGIN ROLLBACK TRANSACTION;"
        " INSERT log (what) VALUES ('after rollback') END"
    )
    assert t.error("BEGIN TRAN; INSERT log (what) VALUES ('before'); INSERT t VALUES (1, 'a'); SELECT 1") == 3609
    assert t.row(STATE) == (0, 0)
    assert t.rows("SELECT id FROM t") == []
    assert t.rows("SELECT what FROM log") == [("after rollback",)]


def test_raiserror_with_rollback(t: Client) -> None:
    t.run("CREATE TRIGGER tr ON t AFTER DELETE AS BEGIN RAISERROR('kept', 16, 1); ROLLBACK TRANSACTION END")
    t.run("INSERT t VALUES (1, 'a')")
    assert t.error("DELETE t") == 50000
    assert t.rows("SELECT id FROM t") == [(1,)]


def test_raiserror_alone_does_not_undo(t: Client) -> None:
    t.run("CREATE TRIGGER tr ON t AFTER INSERT AS RAISERROR('seen', 16, 1)")
    assert t.error("INSERT t VALUES (1, 'a'); INSERT t VALUES (2, 'b')") == 50000
    assert t.rows("SELECT id FROM t ORDER BY id") == [(1,), (2,)]


def test_instead_of_does_its_own_work(t: Client) -> None:
    t.run("CREATE TRIGGER tr ON t INSTEAD OF INSERT AS INSERT t (id, v) SELECT id * 10, UPPER(v) FROM inserted")
    t.run("INSERT t VALUES (1, 'a'), (2, 'b')")
    assert t.rows("SELECT id, v FROM t ORDER BY id") == [(10, "A"), (20, "B")]


def test_update_of_a_column_is_told(t: Client) -> None:
    t.run("CREATE TRIGGER tr ON t AFTER UPDATE AS IF UPDATE(v) INSERT log (what) VALUES ('v')")
    t.run("INSERT t VALUES (1, 'a')")
    t.run("UPDATE t SET id = 2")
    t.run("UPDATE t SET v = v")
    assert t.rows("SELECT what FROM log") == [("v",)]


def test_a_disabled_trigger_rests(t: Client) -> None:
    t.run("CREATE TRIGGER tr ON t AFTER INSERT AS THROW 51000, 'NO', 1")
    t.run("DISABLE TRIGGER tr ON t")
    t.run("INSERT t VALUES (1, 'a')")
    t.run("ENABLE TRIGGER tr ON t")
    assert t.error("INSERT t VALUES (2, 'a')") == 51000


def test_triggers_nest_and_do_not_recurse(t: Client) -> None:
    t.run("CREATE TRIGGER tr ON t AFTER INSERT AS BEGIN INSERT log (what) VALUES ('t'); UPDATE t SET v = 'x' END")
    t.run("CREATE TRIGGER lt ON log AFTER INSERT AS UPDATE log SET ins = TRIGGER_NESTLEVEL()")
    t.run("INSERT t VALUES (1, 'a')")
    assert t.rows("SELECT what, ins FROM log") == [("t", 2)]
    assert t.rows("SELECT v FROM t") == [("x",)]


def test_a_constraint_error_comes_before_the_trigger(t: Client) -> None:
    t.run("CREATE TRIGGER tr ON t AFTER INSERT AS INSERT log (what) VALUES ('fired')")
    t.run("INSERT t VALUES (1, 'a')")
    assert t.error("INSERT t VALUES (1, 'b')") == 2627
    assert t.rows("SELECT what FROM log") == [("fired",)]


def test_a_trigger_ends_only_its_own_settings(t: Client) -> None:
    t.run("CREATE TRIGGER tr ON t AFTER INSERT AS BEGIN SET NOCOUNT ON; SET XACT_ABORT OFF END")
    t.run("SET XACT_ABORT ON; INSERT t VALUES (1, 'a')")
    assert t.value("SELECT @@OPTIONS & 16384") == 16384
    assert t.value("SELECT @@OPTIONS & 512") == 0
