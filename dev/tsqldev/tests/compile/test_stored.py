"""Stored texts of CHECK, DEFAULT and filters, as sys.check_constraints shows them on SQL Server."""

from __future__ import annotations

import pytest
from tsqldev.compile import CompileContext, Compiler
from tsqldev.compile.compiler import rewrite_check
from tsqldev.errors import SqlError
from tsqldev.interfaces import Column
from tsqldev.types import DATETIME, INT, varchar

from .compile_double import Double


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("singleton = 1", "([singleton]=(1))"),
        ("state IN ('A', 'B', 'C')", "([state]='C' OR [state]='B' OR [state]='A')"),
        ("DATALENGTH([d]) BETWEEN 1 AND 100", "(datalength([d])>=(1) AND datalength([d])<=(100))"),
        ("a > 0 AND (b IS NULL OR c <> -1)", "([a]>(0) AND ([b] IS NULL OR [c]<>(-1)))"),
        ("(a = 1 AND b = 2) OR c = 3", "([a]=(1) AND [b]=(2) OR [c]=(3))"),
        ("s IN ('x', 'y') AND n = 1", "(([s]='y' OR [s]='x') AND [n]=(1))"),
        ("name LIKE N'[a-z]%'", "([name] like N'[a-z]%')"),
        ("LEN(RTRIM(x)) >= 1", "(len(rtrim([x]))>=(1))"),
        ("NOT (a = 1 OR b = 2)", "(NOT ([a]=(1) OR [b]=(2)))"),
        ("[phase]='qualification'", "([phase]='qualification')"),
        ("0", "((0))"),
        ("'x'", "('x')"),
        ("GETUTCDATE()", "(getutcdate())"),
        ("CURRENT_TIMESTAMP", "(getdate())"),
        ("NULL", "(NULL)"),
        ("-1", "((-1))"),
        ("CONVERT(varchar(10), a)", "(CONVERT([varchar](10),[a]))"),
    ],
)
def test_stored_form(written: str, stored: str) -> None:
    assert rewrite_check(written) == stored
    assert rewrite_check(stored) == stored


def compiler() -> Compiler:
    return Compiler(Double(), CompileContext("d", 5))


def test_a_check_is_a_condition_over_the_columns_of_its_table() -> None:
    columns, physical = [Column("a", INT), Column("s", varchar(5))], ["c1", "c2"]
    assert compiler().column_condition("a = 1", columns, physical) == "(c1 = 1)"
    with pytest.raises(SqlError) as caught:
        compiler().column_condition("b = 1", columns, physical)
    assert caught.value.number == 207


def test_a_default_is_converted_to_its_column() -> None:
    sql, type = compiler().column_expression("GETDATE()", [], [], DATETIME)
    assert (sql, type.name) == ("sys.getdate()", "datetime")
    with pytest.raises(SqlError) as caught:
        compiler().column_expression("@@SPID", [], [])
    assert caught.value.number == 40000
