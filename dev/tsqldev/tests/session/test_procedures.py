"""Procedures, dynamic batches, variables, temporary tables, and what a driver asks before it binds."""

from __future__ import annotations

from decimal import Decimal

import pytest
from tsqldev.pytest_plugin import TsqlServer

from .session_client import Client, Connect


def test_parameters_by_name_by_position_and_by_default(one: Client) -> None:
    one.run("CREATE PROCEDURE p @a int, @b varchar(5) = 'dflt', @c int = NULL OUTPUT AS SELECT @a, @b; SET @c = @a * 2")
    assert one.row("EXEC p 1") == (1, "dflt")
    assert one.row("EXEC p @b = 'toolong', @a = 2") == (2, "toolo")
    assert one.sets("DECLARE @o int; EXEC p 5, DEFAULT, @o OUTPUT; SELECT @o") == [[(5, "dflt")], [(10,)]]
    assert one.error("EXEC p") == 201
    assert one.error("EXEC p 1, 'x', 2, 3") == 8144
    assert one.error("EXEC p @nope = 1") == 8145
    assert one.error("EXEC nowhere 1") == 2812
    assert one.error("EXEC p 'x'") in (8114, 245)


def test_return_status_and_nested_calls(one: Client) -> None:
    one.run("CREATE PROCEDURE inside @n int AS RETURN @n + 1")
    one.run("CREATE PROCEDURE outside AS BEGIN DECLARE @r int; EXEC @r = inside 41; RETURN @r END")
    assert one.value("DECLARE @r int; EXEC @r = dbo.outside; SELECT @r") == 42
    one.run("CREATE PROCEDURE loops AS EXEC loops")
    assert one.error("EXEC loops") == 217


def test_an_error_in_a_procedure_goes_on_after_it(one: Client) -> None:
    one.run("CREATE PROCEDURE fails AS\nBEGIN\n  SELECT 1 / 0\n  SELECT 'after'\nEND")
    assert one.error("EXEC fails") == 8134
    assert one.row(
        "BEGIN TRY EXEC fails END TRY BEGIN CATCH SELECT ERROR_PROCEDURE(), ERROR_LINE(), ERROR_NUMBER() END CATCH"
    ) == ("fails", 3, 8134)


def test_dynamic_batches_see_temporary_tables_and_not_variables(one: Client) -> None:
    one.run("CREATE TABLE #t (a int)")
    assert one.value("DECLARE @x int = 1; EXEC('INSERT #t VALUES (7)'); SELECT a FROM #t") == 7
    assert one.error("DECLARE @x int = 1; EXEC('SELECT @x')") == 137
    one.run("EXEC('CREATE TABLE #inner (a int)')")
    assert one.error("SELECT * FROM #inner") == 208
    assert one.value("DECLARE @s nvarchar(50) = N'SELECT '; EXEC(@s + '1 + ' + '1')") == 2


def test_sp_executesql_takes_and_gives_parameters(one: Client) -> None:
    assert one.row(
        "DECLARE @n int; EXEC sp_executesql N'SET @out = @in * 3', N'@in int, @out int OUTPUT', @in = 4, @out = @n OUTPUT;"
        " SELECT @n"
    ) == (12,)
    assert one.error("EXEC sp_executesql N'SELECT @a', N'@a int'") == 8178
    assert one.value("EXEC sys.sp_executesql N'SELECT DB_NAME()'") == one.value("SELECT DB_NAME()")


def test_use_in_a_dynamic_batch_ends_with_it(one: Client) -> None:
    before = one.value("SELECT DB_NAME()")
    assert one.value("EXEC('USE master; SELECT DB_NAME()')") == "master"
    assert one.value("SELECT DB_NAME()") == before


def test_loops_and_counters(one: Client) -> None:
    assert one.row(
        "DECLARE @i int = 0, @s varchar(20) = ''; WHILE 1 = 1 BEGIN SET @i += 1; IF @i = 2 CONTINUE; IF @i > 4 BREAK;"
        " SET @s += CAST(@i AS varchar(2)) END; SELECT @i, @s"
    ) == (5, "134")
    one.run("CREATE TABLE t (a int)")
    assert one.row("INSERT t VALUES (1), (2), (3); SELECT @@ROWCOUNT, @@ERROR") == (3, 0)
    assert one.row("DECLARE @a int; SELECT @a = a FROM t WHERE a < 0; SELECT @@ROWCOUNT, @a") == (0, None)
    assert one.row("UPDATE t SET a = a + 1 WHERE a > 1; SELECT @@ROWCOUNT") == (2,)


def test_a_declaration_holds_for_the_whole_batch(one: Client) -> None:
    assert one.row("IF 1 = 0 BEGIN DECLARE @x int = 5 END; SELECT @x") == (None,)
    assert one.error("DECLARE @x int; DECLARE @x int") == 134
    assert one.error("SET @nope = 1") == 137
    assert one.row("DECLARE @x char, @y varchar; SET @x = 'abc'; SET @y = 'abc'; SELECT @x, @y") == ("a", "a")


def test_table_variables(one: Client) -> None:
    assert one.rows(
        "DECLARE @t TABLE (id int NOT NULL PRIMARY KEY, v nvarchar(10) DEFAULT N'd');"
        " INSERT @t (id) VALUES (1), (2); UPDATE @t SET v = N'x' WHERE id = 2; SELECT id, v FROM @t ORDER BY id"
    ) == [(1, "d"), (2, "x")]
    assert one.error("DECLARE @t TABLE (id int NOT NULL PRIMARY KEY); INSERT @t VALUES (1), (1)") == 2627
    one.run("CREATE TABLE t (id int, v int); INSERT t VALUES (1, 1), (2, 2)")
    assert one.rows(
        "DECLARE @o TABLE (id int, old int); UPDATE t SET v = 9 OUTPUT deleted.id, deleted.v INTO @o WHERE id = 2;"
        " SELECT * FROM @o"
    ) == [(2, 2)]


def test_temporary_tables_belong_to_a_session(one: Client, two: Client) -> None:
    one.run("CREATE TABLE #t (a int NOT NULL, b varchar(3) NULL); INSERT #t VALUES (1, 'x')")
    assert two.error("SELECT * FROM #t") == 208
    two.run("CREATE TABLE #t (other int)")
    assert one.rows("SELECT a, b FROM #t") == [(1, "x")]
    assert one.error("CREATE TABLE #t (a int)") == 2714
    one.run("SELECT a AS c, b INTO #copy FROM #t; DROP TABLE #t")
    assert one.rows("SELECT c, b FROM #copy") == [(1, "x")]
    one.run("DROP TABLE IF EXISTS #copy, #t")
    assert one.error("DROP TABLE #copy") == 3701
    one.run("BEGIN TRAN; CREATE TABLE #gone (a int); ROLLBACK")
    assert one.error("SELECT * FROM #gone") == 208


def test_identity_values(one: Client) -> None:
    one.run("CREATE TABLE t (id int IDENTITY(10, 5) PRIMARY KEY, v int)")
    assert one.row("INSERT t (v) VALUES (1), (2); SELECT SCOPE_IDENTITY(), @@IDENTITY, IDENT_CURRENT('t')") == (
        Decimal(15),
        Decimal(15),
        Decimal(15),
    )
    assert one.error("INSERT t (id, v) VALUES (1, 1)") == 544
    one.run("SET IDENTITY_INSERT t ON; INSERT t (id, v) VALUES (100, 1); SET IDENTITY_INSERT t OFF")
    assert one.value("INSERT t (v) VALUES (3); SELECT SCOPE_IDENTITY()") == Decimal(105)


def test_messages_reach_the_client(one: Client) -> None:
    cursor = one.connection.cursor()
    cursor.execute("PRINT 'hello'; RAISERROR('low %d', 10, 1, 7) WITH NOWAIT; PRINT 1 + 1")
    while cursor.nextset():
        continue
    texts = [str(message[1]) for message in cursor.messages]
    assert [word for word in ("hello", "low 7", "2") if any(word in text for text in texts)] == ["hello", "low 7", "2"]


def test_session_context(one: Client, two: Client) -> None:
    one.run("EXEC sp_set_session_context N'k', N'v'; EXEC sp_set_session_context N'fixed', N'f', @read_only = 1")
    assert one.row("SELECT SESSION_CONTEXT(N'k'), SESSION_CONTEXT(N'nope')") == ("v", None)
    assert two.value("SELECT SESSION_CONTEXT(N'k')") is None
    assert one.error("EXEC sp_set_session_context N'fixed', N'other'") == 15664


@pytest.mark.parametrize("driver", ["mssql-python", "pyodbc"])
def test_nulls_are_bound_with_the_type_of_their_column(
    tsql_server: TsqlServer, connect: Connect, driver: str, one: Client
) -> None:
    one.run(
        "CREATE TABLE n (id int NOT NULL PRIMARY KEY, b varbinary(max) NULL, d decimal(9, 2) NULL, g uniqueidentifier NULL)"
    )
    connection = tsql_server.connect(driver, database=str(one.value("SELECT DB_NAME()")))
    cursor = connection.cursor()
    cursor.execute("INSERT n (id, b, d, g) VALUES (?, ?, ?, ?)", (1, None, None, None))
    cursor.execute("UPDATE n SET b = ?, d = ? WHERE id = ?", (None, None, 1))
    cursor.execute("DECLARE @x varbinary(10) = ?; SELECT @x", (None,))
    assert cursor.fetchone()[0] is None
    connection.close()
    assert one.rows("SELECT id, b, d, g FROM n") == [(1, None, None, None)]


def test_a_statement_is_described(one: Client) -> None:
    one.run("CREATE TABLE t (a int NOT NULL, b nvarchar(10) NULL, c decimal(9, 2) NOT NULL)")
    rows = one.rows(
        "SELECT name, system_type_name, is_nullable, max_length FROM"
        " sys.dm_exec_describe_first_result_set(N'SELECT a, b, c FROM t', NULL, 0) ORDER BY column_ordinal"
    )
    assert rows == [("a", "int", False, 4), ("b", "nvarchar(10)", True, 20), ("c", "decimal(9,2)", False, 5)]
    assert (
        one.value("SELECT error_number FROM sys.dm_exec_describe_first_result_set(N'SELECT x FROM t', NULL, 0)") == 207
    )
