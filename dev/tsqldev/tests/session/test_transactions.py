"""Nesting, savepoints, XACT_ABORT, TRY and CATCH, doomed and implicit transactions, as documented."""

from __future__ import annotations

from decimal import Decimal

import pytest

from .session_client import Client, Connect

STATE = "SELECT @@TRANCOUNT, XACT_STATE()"


@pytest.fixture
def t(one: Client) -> Client:
    one.run("CREATE TABLE t (id int NOT NULL CONSTRAINT PK_t PRIMARY KEY, v varchar(10) NULL)")
    return one


def ids(client: Client) -> list[object]:
    return [row[0] for row in client.rows("SELECT id FROM t ORDER BY id")]


def test_begin_and_commit_nest_and_only_the_last_commits(t: Client) -> None:
    t.run("BEGIN TRAN")
    t.run("BEGIN TRAN; INSERT t VALUES (1, 'a')")
    assert t.row(STATE) == (2, 1)
    t.run("COMMIT")
    assert t.row(STATE) == (1, 1)
    t.run("ROLLBACK")
    assert t.row(STATE) == (0, 0)
    assert ids(t) == []


def test_rollback_ends_all_levels(t: Client) -> None:
    t.run("BEGIN TRAN; BEGIN TRAN; INSERT t VALUES (1, 'a'); ROLLBACK")
    assert t.row(STATE) == (0, 0)
    assert t.error("ROLLBACK") == 3903
    assert t.error("COMMIT") == 3902


def test_a_savepoint_takes_back_what_followed_it(t: Client) -> None:
    t.run(
        "BEGIN TRAN; INSERT t VALUES (1, 'a'); SAVE TRAN s; INSERT t VALUES (2, 'b'); ROLLBACK TRAN s;"
        "INSERT t VALUES (3, 'c'); COMMIT"
    )
    assert ids(t) == [1, 3]
    assert t.error("BEGIN TRAN; ROLLBACK TRAN nowhere") == 6401
    t.run("ROLLBACK")


def test_a_failed_statement_leaves_the_transaction_as_before_it(t: Client) -> None:
    t.run("BEGIN TRAN; INSERT t VALUES (1, 'a')")
    assert t.error("INSERT t VALUES (2, 'b'), (1, 'again')") == 2627
    assert t.row(STATE) == (1, 1)
    t.run("INSERT t VALUES (3, 'c'); COMMIT")
    assert ids(t) == [1, 3]


def test_statements_after_a_failed_one_run(t: Client) -> None:
    assert t.error("INSERT t VALUES (1, 'a'); INSERT t VALUES (1, 'b'); INSERT t VALUES (2, 'c')") == 2627
    assert ids(t) == [1, 2]


def test_xact_abort_ends_batch_and_transaction(t: Client) -> None:
    t.run("SET XACT_ABORT ON")
    t.run("BEGIN TRAN; INSERT t VALUES (1, 'a')")
    assert t.error("INSERT t VALUES (1, 'b'); INSERT t VALUES (2, 'c')") == 2627
    assert t.row(STATE) == (0, 0)
    assert ids(t) == []


def test_raiserror_does_not_honour_xact_abort_and_throw_does(t: Client) -> None:
    t.run("SET XACT_ABORT ON; BEGIN TRAN; INSERT t VALUES (1, 'a')")
    assert t.error("RAISERROR('x', 16, 1); INSERT t VALUES (2, 'b')") == 50000
    assert t.row(STATE) == (1, 1)
    assert t.error("THROW 51000, 'y', 1; INSERT t VALUES (3, 'c')") == 51000
    assert t.row(STATE) == (0, 0)
    assert ids(t) == []


def test_throw_ends_the_batch_and_leaves_the_transaction_without_xact_abort(t: Client) -> None:
    assert t.error("BEGIN TRAN; INSERT t VALUES (1, 'a'); THROW 51000, 'x', 1; INSERT t VALUES (2, 'b')") == 51000
    assert t.row(STATE) == (1, 1)
    t.run("COMMIT")
    assert ids(t) == [1]


def test_catch_sees_the_error(t: Client) -> None:
    row = t.row(
        "INSERT t VALUES (1, 'a')\n"
        "BEGIN TRY\n"
        "  INSERT t VALUES (1, 'b')\n"
        "  INSERT t VALUES (2, 'c')\n"
        "END TRY\n"
        "BEGIN CATCH\n"
        "  SELECT ERROR_NUMBER(), ERROR_LINE(), ERROR_SEVERITY(), ERROR_PROCEDURE(), @@ERROR,"
        "   LEFT(ERROR_MESSAGE(), 80)\n"
        "END CATCH"
    )
    assert row[:5] == (2627, 3, 14, None, 2627)
    assert row[5] == "Violation of PRIMARY KEY constraint 'PK_t'. Cannot insert duplicate key in objec"
    assert t.value("SELECT ERROR_NUMBER()") is None
    assert ids(t) == [1]


def test_throw_without_arguments_sends_the_caught_error_on(t: Client) -> None:
    assert t.error("BEGIN TRY SELECT 1 / 0 END TRY BEGIN CATCH THROW END CATCH") == 8134
    assert t.error("THROW") == 10704


def test_an_error_under_xact_abort_in_a_try_dooms_the_transaction(t: Client) -> None:
    assert t.row(
        "SET XACT_ABORT ON; BEGIN TRAN; INSERT t VALUES (1, 'a');"
        "BEGIN TRY INSERT t VALUES (1, 'b') END TRY BEGIN CATCH SELECT XACT_STATE(), @@TRANCOUNT; ROLLBACK END CATCH"
    ) == (-1, 1)
    assert t.row(STATE) == (0, 0)


def test_a_doomed_transaction_reads_but_neither_writes_nor_commits(t: Client) -> None:
    assert t.row(
        "SET XACT_ABORT ON; BEGIN TRAN; INSERT t VALUES (1, 'a'); DECLARE @w int, @c int;"
        "BEGIN TRY INSERT t VALUES (1, 'b') END TRY BEGIN CATCH "
        "BEGIN TRY INSERT t VALUES (2, 'c') END TRY BEGIN CATCH SET @w = ERROR_NUMBER() END CATCH;"
        "BEGIN TRY COMMIT END TRY BEGIN CATCH SET @c = ERROR_NUMBER() END CATCH;"
        "SELECT @w, @c, (SELECT COUNT(*) FROM t), XACT_STATE(); ROLLBACK END CATCH"
    ) == (3930, 3930, 1, -1)
    assert ids(t) == []


def test_a_doomed_transaction_does_not_outlive_its_batch(t: Client) -> None:
    assert (
        t.error(
            "SET XACT_ABORT ON; BEGIN TRAN; BEGIN TRY INSERT t VALUES (NULL, 'b') END TRY"
            " BEGIN CATCH SELECT 1 END CATCH"
        )
        == 3998
    )
    assert t.row(STATE) == (0, 0)


def test_a_conversion_error_ends_batch_and_transaction(t: Client) -> None:
    assert t.error("BEGIN TRAN; INSERT t VALUES (1, 'a'); SELECT CAST('x' AS int); INSERT t VALUES (2, 'b')") == 245
    assert t.row(STATE) == (0, 0)
    assert ids(t) == []


def test_a_missing_table_ends_the_batch_and_not_the_transaction(t: Client) -> None:
    assert t.error("BEGIN TRAN; INSERT t VALUES (1, 'a'); SELECT * FROM nowhere; INSERT t VALUES (2, 'b')") == 208
    assert t.row(STATE) == (1, 1)
    t.run("COMMIT")
    assert ids(t) == [1]


def test_a_missing_table_is_caught_outside_its_scope_only(t: Client) -> None:
    assert t.error("BEGIN TRY SELECT * FROM nowhere END TRY BEGIN CATCH SELECT 1 END CATCH") == 208
    assert t.value("BEGIN TRY EXEC('SELECT * FROM nowhere') END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH") == 208


def test_a_batch_that_does_not_parse_does_nothing(t: Client) -> None:
    assert t.error("INSERT t VALUES (1, 'a'); END") == 156
    assert t.error("INSERT t VALUES (1, 'a');\nIF 1 = 0\n SELECT FROM t") == 156
    assert t.error("INSERT t VALUES (1, 'a'); SELECT 1 +") == 102
    assert ids(t) == []


def test_rows_of_a_procedure_are_inserted(t: Client) -> None:
    t.run("CREATE PROCEDURE two @n int AS BEGIN SELECT @n, 'x'; SELECT @n + 1, 'y' END")
    t.run("INSERT t EXEC two 5")
    assert t.rows("SELECT id, v FROM t ORDER BY id") == [(5, "x"), (6, "y")]
    t.run("INSERT INTO t (id) EXEC('SELECT 9')")
    assert t.error("INSERT t EXEC two 6") == 2627
    assert ids(t) == [5, 6, 9]


def test_a_table_variable_in_a_trigger_that_fails(t: Client) -> None:
    t.run(
        "CREATE TRIGGER tr ON t AFTER INSERT AS BEGIN DECLARE @x TABLE (a int PRIMARY KEY);"
        " INSERT @x SELECT 1; INSERT @x SELECT 1 END"
    )
    for _ in range(2):
        assert t.error("SET XACT_ABORT ON; INSERT t VALUES (1, 'a')") == 2627
        assert t.row(STATE) == (0, 0)
    assert ids(t) == []


@pytest.fixture
def keyed(one: Client) -> Client:
    one.run(
        "CREATE TABLE k (a int NOT NULL PRIMARY KEY, name varchar(10) NOT NULL UNIQUE, v int);"
        "INSERT k VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)"
    )
    return one


def test_unique_keys_are_looked_at_when_all_rows_are_changed(keyed: Client) -> None:
    keyed.run("UPDATE k SET a = a + 1")
    assert keyed.rows("SELECT a, v FROM k ORDER BY a") == [(2, 1), (3, 2), (4, 3)]
    keyed.run("BEGIN TRAN; UPDATE k SET name = CASE name WHEN 'a' THEN 'b' WHEN 'b' THEN 'a' ELSE name END; COMMIT")
    assert keyed.rows("SELECT name FROM k ORDER BY v") == [("b",), ("a",), ("c",)]
    moved = keyed.rows("UPDATE k SET a = a - 1 OUTPUT deleted.a, inserted.a WHERE a >= 2")
    assert sorted(moved) == [(2, 1), (3, 2), (4, 3)]


def test_duplicates_that_are_left_fail_the_statement(keyed: Client) -> None:
    assert keyed.error("UPDATE k SET a = a / 2") == 2627
    assert keyed.error("BEGIN TRAN; INSERT k VALUES (9, 'z', 9); UPDATE k SET a = (a + 1) / 2") == 2627
    assert keyed.row(STATE) == (1, 1)
    keyed.run("COMMIT")
    assert keyed.rows("SELECT a FROM k ORDER BY a") == [(1,), (2,), (3,), (9,)]
    assert keyed.error("INSERT k VALUES (9, 'y', 9)") == 2627
    assert keyed.error("UPDATE k SET a = 1 WHERE a = 2") == 2627


def test_a_trigger_sees_the_moved_keys(keyed: Client) -> None:
    keyed.run("CREATE TABLE seen (old int, new int)")
    keyed.run(
        "CREATE TRIGGER tr ON k AFTER UPDATE AS INSERT seen SELECT d.a, i.a FROM inserted i JOIN deleted d ON d.v = i.v"
    )
    keyed.run("UPDATE k SET a = a + 1")
    assert keyed.rows("SELECT old, new FROM seen ORDER BY old") == [(1, 2), (2, 3), (3, 4)]


def test_table_variables_outlive_a_rollback(one: Client) -> None:
    assert one.sets(
        "DECLARE @before TABLE (id int IDENTITY PRIMARY KEY, v varchar(10)); INSERT @before VALUES ('a');"
        "BEGIN TRAN; DECLARE @within TABLE (id int IDENTITY(10, 10), v decimal(5, 2), w AS v * 2);"
        "INSERT @before VALUES ('b'); DELETE @before WHERE v = 'a'; INSERT @within VALUES (1.5), (2.5);"
        "ROLLBACK; INSERT @before VALUES ('c'); INSERT @within VALUES (NULL);"
        "SELECT id, v FROM @before ORDER BY id; SELECT id, v, w FROM @within ORDER BY id"
    ) == [
        [(2, "b"), (3, "c")],
        [(10, Decimal("1.50"), Decimal("3.00")), (20, Decimal("2.50"), Decimal("5.00")), (30, None, None)],
    ]


def test_table_variables_outlive_a_savepoint_and_a_trigger(t: Client) -> None:
    t.run("CREATE TRIGGER tr ON t AFTER INSERT AS ROLLBACK")
    assert t.sets(
        "DECLARE @x TABLE (a int); BEGIN TRAN; SAVE TRAN s; INSERT @x VALUES (1); DECLARE @y TABLE (a int);"
        "INSERT @y VALUES (2); ROLLBACK TRAN s; SELECT a FROM @x; SELECT a FROM @y; COMMIT"
    ) == [[(1,)], [(2,)]]
    assert t.rows(
        "DECLARE @x TABLE (a int); BEGIN TRY INSERT @x VALUES (1); INSERT t OUTPUT inserted.id INTO @x VALUES (7, 'a')"
        " END TRY BEGIN CATCH SELECT a FROM @x ORDER BY a END CATCH"
    ) == [(1,), (7,)]


def test_a_statement_that_fails_changes_no_table_variable(one: Client) -> None:
    assert one.rows(
        "DECLARE @x TABLE (a int PRIMARY KEY); BEGIN TRY INSERT @x VALUES (1); INSERT @x VALUES (2), (1) END TRY"
        " BEGIN CATCH SELECT a FROM @x END CATCH"
    ) == [(1,)]


def test_a_procedure_that_changes_the_nesting_is_reported(t: Client) -> None:
    t.run("CREATE PROCEDURE opens AS BEGIN TRAN")
    assert t.error("EXEC opens") == 266
    assert t.row(STATE) == (1, 1)
    t.run("ROLLBACK")


@pytest.mark.parametrize("text", ["BEGIN TRAN", "IF @n = 1 BEGIN TRAN", "SAVE TRAN s; COMMIT", "ROLLBACK"])
def test_a_text_with_parameters_that_changes_the_nesting_is_reported(t: Client, text: str) -> None:
    before = 0 if "BEGIN" in text else 1
    t.run("BEGIN TRAN" if before else "SELECT 1")
    assert t.error(f"EXEC sp_executesql N'{text}', N'@n int', @n = 1") == 266
    assert t.row(STATE) == (1 - before, 1 - before)
    t.run("IF @@TRANCOUNT > 0 ROLLBACK")


def test_a_text_with_parameters_may_end_one_transaction_and_open_another(t: Client) -> None:
    t.run(
        "BEGIN TRAN; EXEC sp_executesql N'INSERT t VALUES (@n, ''a''); COMMIT; BEGIN TRAN', N'@n int', @n = 1; ROLLBACK"
    )
    assert ids(t) == [1]
    t.run("SET IMPLICIT_TRANSACTIONS ON; EXEC sp_executesql N'INSERT t VALUES (@n, ''a'')', N'@n int', @n = 2")
    assert t.row(STATE) == (1, 1)
    t.run("COMMIT; SET IMPLICIT_TRANSACTIONS OFF")
    assert ids(t) == [1, 2]


def test_implicit_transactions_begin_with_the_first_statement_that_needs_one(t: Client) -> None:
    t.run("SET IMPLICIT_TRANSACTIONS ON")
    assert t.row(STATE) == (0, 0)
    t.run("INSERT t VALUES (1, 'a')")
    assert t.row(STATE) == (1, 1)
    t.run("ROLLBACK")
    t.run("IF @@TRANCOUNT = 0 BEGIN TRANSACTION")
    assert t.row(STATE) == (2, 1)
    t.run("COMMIT; COMMIT")
    t.run("DECLARE @n int; SELECT @n = COUNT(*) FROM t")
    assert t.row(STATE) == (1, 1)
    t.run("ROLLBACK; SET IMPLICIT_TRANSACTIONS OFF")
    assert ids(t) == []


def test_the_transaction_id_names_one_transaction(t: Client) -> None:
    t.run("BEGIN TRAN")
    first = t.value("SELECT CURRENT_TRANSACTION_ID()")
    assert t.value("SELECT CURRENT_TRANSACTION_ID()") == first
    t.run("COMMIT; BEGIN TRAN")
    assert t.value("SELECT CURRENT_TRANSACTION_ID()") != first
    t.run("ROLLBACK")
    assert t.value("SELECT CURRENT_TRANSACTION_ID()") != t.value("SELECT CURRENT_TRANSACTION_ID()")


def test_definitions_roll_back(t: Client) -> None:
    t.run("BEGIN TRAN; CREATE TABLE u (a int); CREATE LOGIN rolled_back WITH PASSWORD = 'Xy1234567!'; ROLLBACK")
    assert t.row("SELECT OBJECT_ID('u'), SUSER_ID('rolled_back')") == (None, None)


def test_a_snapshot_needs_the_database_to_allow_it(t: Client, connect: Connect) -> None:
    t.run("INSERT t VALUES (1, 'a')")
    assert t.error("SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN; SELECT * FROM t") == 3952
    t.run("IF @@TRANCOUNT > 0 ROLLBACK; SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
    t.run("ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON")
    t.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN; SELECT * FROM t")
    other = connect()
    other.run("INSERT t VALUES (2, 'b'); UPDATE t SET v = 'z' WHERE id = 1")
    assert t.rows("SELECT id, v FROM t") == [(1, "a")]
    assert t.error("UPDATE t SET v = 'y' WHERE id = 1") == 3960
    assert t.row(STATE) == (0, 0)


def test_definitions_of_others_come_into_sight_after_a_snapshot(t: Client, connect: Connect) -> None:
    t.run("ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON")
    t.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRAN; SELECT * FROM t")
    connect().run("CREATE TABLE later (a int); INSERT later VALUES (1)")
    assert t.error("SELECT a FROM later") == 208
    t.run("COMMIT; SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
    assert t.rows("SELECT a FROM later") == [(1,)]


def test_definitions_of_others_are_seen_at_once(t: Client, connect: Connect) -> None:
    other = connect()
    assert other.rows("SELECT id FROM t") == []
    t.run("DROP TABLE t; CREATE TABLE t (id varchar(5), extra int); INSERT t VALUES ('x', 1)")
    assert other.rows("SELECT * FROM t") == [("x", 1)]
    t.run("BEGIN TRAN; ALTER TABLE t ADD more int NULL")
    assert t.rows("SELECT * FROM t") == [("x", 1, None)]
    t.run("ROLLBACK")
    assert t.rows("SELECT * FROM t") == [("x", 1)]
    assert other.rows("SELECT * FROM t") == [("x", 1)]


def test_rights_are_seen_at_once(t: Client, connect: Connect) -> None:
    t.run("CREATE USER reader WITHOUT LOGIN; GRANT SELECT ON t TO reader")
    t.run("EXECUTE AS USER = N'reader'; SELECT * FROM t; REVERT")
    connect().run("REVOKE SELECT ON t FROM reader")
    assert t.error("EXECUTE AS USER = N'reader'; SELECT * FROM t") == 229
    t.run("REVERT")
