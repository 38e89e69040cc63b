"""Static types and values of expressions, as the Transact-SQL reference gives them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from tsqldev.errors import SqlError
from tsqldev.types import INT, SqlType, decimal, varbinary, varchar

from .compile_double import Session


@pytest.mark.parametrize(
    ("expression", "type", "value"),
    [
        ("1", "int", 1),
        ("2147483648", "numeric(10,0)", Decimal(2147483648)),
        ("1.50", "numeric(3,2)", Decimal("1.50")),
        ("1e3", "float", 1000.0),
        ("'abc'", "varchar(3)", "abc"),
        ("N'é'", "nvarchar(1)", "é"),
        ("0xAB", "varbinary(1)", b"\xab"),
        ("$1.5", "money", Decimal("1.5000")),
        ("1/3", "int", 0),
        ("-7/2", "int", -3),
        ("-7%3", "int", -1),
        ("1.0/3", "numeric(7,6)", Decimal("0.333333")),
        ("2/3.0", "numeric(8,6)", Decimal("0.666666")),
        ("CAST(1 AS decimal(10,2)) / 3", "decimal(14,6)", Decimal("0.333333")),
        ("CAST(2 AS decimal(5,2)) * CAST(2 AS decimal(5,2))", "decimal(11,4)", Decimal("4.0000")),
        ("CAST(1 AS decimal(5,2)) + CAST(1 AS decimal(8,4))", "decimal(9,4)", Decimal("2.0000")),
        ("CAST(10 AS decimal(38,10)) / CAST(3 AS decimal(38,10))", "decimal(38,6)", Decimal("3.333333")),
        ("1 + 1.5", "numeric(3,1)", Decimal("2.5")),
        ("1 + '2'", "int", 3),
        ("'1' + '2'", "varchar(2)", "12"),
        ("'a' + N'b'", "nvarchar(2)", "ab"),
        ("CASE WHEN 1 = 1 THEN 1 ELSE 2.5 END", "numeric(11,1)", Decimal("1.0")),
        ("COALESCE(NULL, 1, 2)", "int", 1),
        ("ISNULL(CAST(NULL AS varchar(2)), 'abc')", "varchar(2)", "ab"),
        ("5 & 3", "int", 1),
        ("~CAST(1 AS bit)", "bit", 0),
        ("CAST(1.9 AS int)", "int", 1),
        ("CAST(-1.9 AS int)", "int", -1),
        ("CAST(1.5 AS decimal(3,0))", "decimal(3,0)", Decimal(2)),
        ("CAST('' AS int)", "int", 0),
        ("CAST(' 12 ' AS int)", "int", 12),
        ("CAST(12 AS varchar(1))", "varchar(1)", "*"),
        ("CAST('abc' AS char(5))", "char(5)", "abc  "),
        ("CAST('abc' AS varchar(2))", "varchar(2)", "ab"),
        ("CAST(N'日本' AS varchar(4))", "varchar(4)", "??"),
        ("CAST(1e20 AS varchar(30))", "varchar(30)", "1e+020"),
        ("CAST(CAST(5 AS money) AS varchar(20))", "varchar(20)", "5.00"),
        ("TRY_CAST('x' AS int)", "int", None),
        ("TRY_CONVERT(tinyint, 300)", "tinyint", None),
        ("CAST(5 AS varbinary(8))", "varbinary(8)", b"\0\0\0\5"),
        ("CAST(0x0102 AS smallint)", "smallint", 258),
        ("CONVERT(varchar(10), 0x0AFF, 1)", "varchar(10)", "0x0AFF"),
        ("CONVERT(varchar(10), 0x0AFF, 2)", "varchar(10)", "0AFF"),
        ("CONVERT(varbinary(4), '0x0AFF', 1)", "varbinary(4)", b"\x0a\xff"),
        ("CAST(N'aé' AS varbinary(8))", "varbinary(8)", b"a\0\xe9\0"),
        ("CAST('aé' AS varbinary(8))", "varbinary(8)", b"a\xe9"),
        ("CAST(0x6100E900 AS nvarchar(8))", "nvarchar(8)", "aé"),
        (
            "CONVERT(uniqueidentifier, 0x33221100554477668899AABBCCDDEEFF)",
            "uniqueidentifier",
            UUID("00112233-4455-6677-8899-aabbccddeeff"),
        ),
        ("LOWER(CONVERT(char(36), CAST('00112233-4455-6677-8899-AABBCCDDEEFF' AS uniqueidentifier)))", "varchar(36)",
         "00112233-4455-6677-8899-aabbccddeeff"),
        ("CAST(0x61D181E9 AS varchar(8))", "varchar(8)", "a\u00d1\u0081\u00e9"),
        ("CAST(CAST(0x80819FFF AS varchar(8)) AS varbinary(8))", "varbinary(8)", b"\x80\x81\x9f\xff"),
        ("CAST(CAST(N'aЖ😀' COLLATE Latin1_General_100_CI_AS_SC_UTF8 AS varchar(8)) AS varbinary(8))", "varbinary(8)",
         "aЖ😀".encode()),
        ("DATALENGTH(CAST(N'aЖ😀' COLLATE Latin1_General_100_CI_AS_SC_UTF8 AS varchar(8)))", "int", 7),
        ("LEN('abc  ')", "int", 3),
        ("LEN(N'😀')", "int", 2),
        ("DATALENGTH(N'abc')", "int", 6),
        ("DATALENGTH('abc ')", "int", 4),
        ("DATALENGTH(CAST('abc' AS varchar(max)))", "bigint", 3),
        ("CONVERT(char(64), HASHBYTES('SHA2_256', N'abc'), 2)", "char(64)",
         "13E228567E8249FCE53337F25D7970DE3BD68AB2653424C7B8F9FD05E33CAEDF"),
        ("CONVERT(varchar(40), HASHBYTES('SHA1', 'abc'), 2)", "varchar(40)", "A9993E364706816ABA3E25717850C26C9CD0D89D"),
        ("CONVERT(varchar(32), HASHBYTES('md5', 'abc'), 2)", "varchar(32)", "900150983CD24FB0D6963F7D28E17F72"),
        ("QUOTENAME('a]b')", "nvarchar(258)", "[a]]b]"),
        ("REPLACE('aXbx', 'x', '-')", "varchar(8000)", "a-b-"),
        ("CHARINDEX('B', 'abc')", "int", 2),
        ("SUBSTRING('abcdef', 0, 3)", "varchar(3)", "ab"),
        ("STUFF('abc', 2, 1, 'XX')", "varchar(5)", "aXXc"),
        ("CONCAT('a', NULL, 1)", "varchar(14)", "a1"),
        ("ROUND(2.567, 1)", "numeric(4,3)", Decimal("2.600")),
        ("CEILING(1.2)", "numeric(2,0)", Decimal(2)),
        ("POWER(2, 10)", "int", 1024),
        ("NULLIF(1, 1)", "int", None),
        ("IIF(1 = 2, 'a', 'bc')", "varchar(2)", "bc"),
        ("CHOOSE(2, 'a', 'b')", "varchar(1)", "b"),
        ("JSON_VALUE('{\"a\":{\"b\":\"x\"}}', '$.a.b')", "nvarchar(4000)", "x"),
        ("ISJSON('{}')", "int", 1),
    ],
)  # fmt: skip
def test_expression(session: Session, expression: str, type: str, value: object) -> None:
    assert session.type(expression) == type
    assert session.value(expression) == value


@pytest.mark.parametrize(
    ("expression", "number"),
    [
        ("CAST('x' AS int)", 245),
        ("CAST('1.5' AS int)", 245),
        ("CAST('99999999999' AS int)", 248),
        ("CAST('300' AS tinyint)", 244),
        ("CAST('x' AS bigint)", 8114),
        ("CAST('x' AS decimal(5,2))", 8114),
        ("CAST('1234' AS decimal(5,2))", 8115),
        ("CAST(300 AS tinyint)", 220),
        ("CAST(3e9 AS int)", 232),
        ("CAST(12345.6 AS decimal(5,2))", 8115),
        ("CAST(255 AS tinyint) + CAST(1 AS tinyint)", 8115),
        ("CAST('x' AS uniqueidentifier)", 8169),
        ("CAST('2024-13-01' AS date)", 241),
        ("CAST('1700-01-01' AS datetime)", 242),
        ("CAST('abc' AS xml2)", 243),
        ("CAST(1 AS date)", 529),
        ("CAST(CAST(1.5 AS float) AS uniqueidentifier)", 529),
        ("ISNULL(CAST(GETDATE() AS date), 1)", 206),
        ("'a' - 'b'", 8117),
        ("SUM('a')", 8117),
        ("CONVERT(varbinary(4), 'zz', 1)", 8114),
        ("LEFT('abc', -1 + CAST('0' AS int))", 537),
    ],
)
def test_what_cannot_be_converted(session: Session, expression: str, number: int) -> None:
    with pytest.raises(SqlError) as caught:
        session.value(expression)
    assert caught.value.number == number


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("CONVERT(varchar(30), CAST('2024-02-29 13:14:15.123' AS datetime), 121)", "2024-02-29 13:14:15.123"),
        ("CONVERT(varchar(30), CAST('2024-02-29 13:14:15.678' AS datetime), 126)", "2024-02-29T13:14:15.677"),
        ("CONVERT(char(8), CAST('2024-02-29' AS datetime), 112)", "20240229"),
        ("CONVERT(varchar(30), CAST('2024-02-09 13:14' AS datetime))", "Feb  9 2024  1:14PM"),
        ("CONVERT(varchar(30), CAST('2024-02-29' AS date))", "2024-02-29"),
        ("CONVERT(varchar(10), CAST('2024-02-29' AS date), 103)", "29/02/2024"),
        ("CONVERT(varchar(34), CAST('2024-01-01 10:00:00.1234567 +02:00' AS datetimeoffset(7)), 121)",
         "2024-01-01 10:00:00.1234567 +02:00"),
        ("CONVERT(varchar(16), CAST('10:11:12.1234567' AS time(7)), 121)", "10:11:12.1234567"),
        ("CONVERT(varchar(30), DATEADD(month, 1, CAST('2024-01-31' AS date)), 23)", "2024-02-29"),
        ("CONVERT(varchar(30), DATEADD(nanosecond, 100, CAST('2024-01-31' AS datetime2(7))), 121)", "2024-01-31 00:00:00.0000001"),
        ("CONVERT(varchar(30), CAST('2024-01-01' AS datetime) + 1.5, 120)", "2024-01-02 12:00:00"),
        ("CONVERT(varchar(30), EOMONTH('2023-02-10'), 23)", "2023-02-28"),
        ("CONVERT(varchar(30), CAST('2024-01-01 23:59:59.9996' AS datetime2(3)), 121)", "2024-01-02 00:00:00.000"),
        ("CONVERT(varchar(33), CONVERT(datetime2(0), '01/02/2024 3:04PM', 103), 120)", "2024-02-01 15:04:00"),
        ("CONVERT(varchar(33), SWITCHOFFSET(CAST('2024-01-01 10:00 +00:00' AS datetimeoffset(0)), '+02:00'), 121)",
         "2024-01-01 12:00:00 +02:00"),
        ("DATEDIFF(year, '2023-12-31', '2024-01-01')", 1),
        ("DATEDIFF(week, '2024-01-06', '2024-01-07')", 1),
        ("DATEDIFF(second, '2024-01-01', '2024-01-01 00:01')", 60),
        ("DATEDIFF_BIG(nanosecond, CAST('2024-01-01' AS date), CAST('2024-01-02' AS date))", 86_400_000_000_000),
        ("DATEPART(week, '2024-01-07')", 2),
        ("DATEPART(iso_week, '2024-12-30')", 1),
        ("DATEPART(weekday, '2024-01-07')", 1),
        ("DATENAME(month, '2024-02-01')", "February"),
        ("FORMAT(CAST('2024-01-02' AS date), 'dd.MM.yyyy')", "02.01.2024"),
    ],
)  # fmt: skip
def test_dates(session: Session, expression: str, value: object) -> None:
    assert session.value(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "CAST(@d AS datetime2(3))", "CAST(@d AS datetime)", "CAST(@d AS time(3))", "DATEADD(day, 1, @d)", "YEAR(@d)",
        "DATEDIFF(day, @d, GETDATE())", "DATEDIFF(day, '2024-01-01', @d)", "EOMONTH(@d)", "CONVERT(varchar(30), @d, 121)",
        "SUBSTRING(@s, 1, 2)", "SUBSTRING('abc', @i, 2)", "SUBSTRING('abc', 1, @i)", "LEFT('abc', @i)", "RIGHT(@s, 1)",
        "REPLICATE('a', @i)", "REPLICATE(@s, 2)", "SPACE(@i)", "STUFF('abc', @i, 1, 'x')", "REPLACE('abc', @s, 'x')",
        "CHARINDEX(@s, 'abc')", "CHARINDEX('a', @s)", "CHARINDEX('a', 'abc', @i)", "LEN(@s)", "DATALENGTH(@s)", "UPPER(@s)",
        "LTRIM(@s)", "QUOTENAME(@s)", "@s + 'x'", "@i + 1", "-@i", "@m * 1.5", "@m / 3", "ROUND(@m, 1)", "CAST(@m AS int)",
        "CAST(@i AS varchar(5))", "CAST(@s AS int)", "CAST(@s AS uniqueidentifier)", "CAST(@b AS varchar(5))", "CAST(@s AS varbinary(5))",
        "CONVERT(varchar(10), @b, 2)", "HASHBYTES('SHA2_256', @s)", "HASHBYTES('SHA1', @b)", "CAST(@b AS binary(4))", "CAST(@i AS bit)",
        "NULLIF(@i, 1)", "ISNULL(@i, @i)", "CASE WHEN @i = 1 THEN 1 END", "PATINDEX('%a%', @s)", "TRANSLATE(@s, 'a', 'b')",
        "JSON_VALUE(@s, '$.a')", "CAST(@s AS decimal(5,2))", "CAST(@m AS decimal(3,1))", "CAST(@i AS tinyint)", "ABS(@i)", "UNICODE(@s)",
    ],
)  # fmt: skip
def test_null_in_gives_null_out(session: Session, expression: str) -> None:
    session.declare("@i", INT, None)
    session.declare("@m", decimal(10, 4), None)
    session.declare("@s", varchar(20), None)
    session.declare("@b", varbinary(20), None)
    session.declare("@d", SqlType("datetime2", scale=7), None)
    assert session.value(expression) is None


def test_datetime_keeps_three_hundredths_of_a_second(session: Session) -> None:
    rounded: list[Any] = [session.value(f"CONVERT(varchar(30), CAST('2024-01-01 00:00:00.{ms}' AS datetime), 121)")
                          for ms in ("001", "002", "005", "009", "999")]  # fmt: skip
    assert [text[11:] for text in rounded] == [
        "00:00:00.000",
        "00:00:00.003",
        "00:00:00.007",
        "00:00:00.010",
        "00:00:01.000",
    ]


def test_a_bare_null_is_an_int_and_takes_the_type_of_its_union(session: Session) -> None:
    assert session.type("NULL") == "int"
    assert session.run("SELECT NULL UNION ALL SELECT 'a'") == [(None,), ("a",)]
