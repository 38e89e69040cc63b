"""Messages, assignments, the trace: what needs no server."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

import pytest
from tsqldev.errors import SqlError
from tsqldev.interfaces import Column
from tsqldev.session.bulk import copy_blocks
from tsqldev.session.convert import NotDirect, assign
from tsqldev.session.messages import format_message
from tsqldev.session.prepared import declarations
from tsqldev.session.trace import masked
from tsqldev.types import (
    BIGINT,
    BIT,
    FLOAT,
    INT,
    MAX,
    TINYINT,
    UNIQUEIDENTIFIER,
    SqlType,
    decimal,
    nvarchar,
    varbinary,
    varchar,
)


@pytest.mark.parametrize(
    ("template", "arguments", "expected"),
    [
        ("plain", [], "plain"),
        ("%d of %s", [3, "x"], "3 of x"),
        ("%5d|%-5d|%05d|%+d", [1, 2, 3, 4], "    1|2    |00003|+4"),
        ("%s%%", ["50"], "50%"),
        ("%x %X %#x %o", [255, 255, 255, 8], "ff FF 0xff 10"),
        ("%.3s|%10s|%-4s|", ["abcdef", "r", "l"], "abc|         r|l   |"),
        ("%*d", [4, 7], "   7"),
        ("%I64d", [1 << 40], str(1 << 40)),
        ("%s", [None], "(null)"),
        ("%u", [-1], "4294967295"),
    ],
)
def test_raiserror_formats_as_printf(template: str, arguments: list[object], expected: str) -> None:
    assert format_message(template, arguments) == expected


def test_a_format_without_its_argument_is_an_error() -> None:
    with pytest.raises(SqlError) as refused:
        format_message("%d %d", [1])
    assert refused.value.number == 2787


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        ("abcdef", varchar(6), varchar(3), "abc"),
        ("ab", varchar(2), SqlType("char", length=4, collation="x"), "ab  "),
        ("Ω", nvarchar(1), nvarchar(2), "Ω"),
        (5, INT, BIGINT, 5),
        (2, INT, BIT, 1),
        (5, INT, decimal(10, 2), Decimal("5.00")),
        (b"abc", varbinary(MAX), varbinary(2), b"ab"),
        (b"a", varbinary(1), SqlType("binary", length=3), b"a\x00\x00"),
        ("6F9619FF-8B86-D011-B42D-00C04FC964FF", nvarchar(36), UNIQUEIDENTIFIER,
         UUID("6F9619FF-8B86-D011-B42D-00C04FC964FF")),
        (None, INT, varchar(3), None),
    ],
)  # fmt: skip
def test_assignment_converts_as_declared(value: object, source: SqlType, target: SqlType, expected: object) -> None:
    assert assign(value, source, target) == expected


@pytest.mark.parametrize(
    ("value", "source", "target"),
    [
        ("Ω", nvarchar(1), varchar(1)),
        ("é", nvarchar(1), varchar(1)),
        ("😀a", nvarchar(3), nvarchar(2)),
        ("6F9619FF8B86D011B42D00C04FC964FF", nvarchar(36), UNIQUEIDENTIFIER),
        ("urn:uuid:6F9619FF-8B86-D011-B42D-00C04FC964FF", nvarchar(60), UNIQUEIDENTIFIER),
    ],
)
def test_code_pages_units_and_other_spellings_are_left_to_the_rules_of_conversion(
    value: object, source: SqlType, target: SqlType
) -> None:
    with pytest.raises(NotDirect):
        assign(value, source, target)


@pytest.mark.parametrize(
    ("value", "target", "number"), [(300, TINYINT, 220), (1 << 40, INT, 8115), (1000, decimal(3, 1), 8115)]
)
def test_assignment_out_of_range_is_an_overflow(value: int, target: SqlType, number: int) -> None:
    with pytest.raises(SqlError) as refused:
        assign(value, BIGINT, target)
    assert refused.value.number == number


def test_a_conversion_with_rules_is_left_to_the_compiler() -> None:
    with pytest.raises(NotDirect):
        assign("12", varchar(2), INT)
    with pytest.raises(NotDirect):
        assign(1.5, FLOAT, varchar(10))


def test_parameter_declarations() -> None:
    found = declarations("@a int, @b nvarchar(10) OUTPUT,@c decimal(10,2) out, @d varbinary(max)")
    assert [(d.name, str(d.type), d.output) for d in found] == [
        ("@a", "int", False),
        ("@b", "nvarchar(10)", True),
        ("@c", "decimal(10,2)", True),
        ("@d", "varbinary(max)", False),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "CREATE LOGIN [a] WITH PASSWORD = N'S3cr''et', SID = 0x01",
        "create login a with password=0x0200ABCD hashed",
        "ALTER LOGIN a WITH PASSWORD = 'S3cr''et' OLD_PASSWORD = 'S3cr''et old'",
        "EXEC(N'CREATE LOGIN [a] WITH PASSWORD = N''S3cr''''et''')",
    ],
)
def test_the_trace_hides_passwords(text: str) -> None:
    assert "S3cr" not in masked(text)
    assert "0200ABCD" not in masked(text)
    assert "et" not in masked(text).replace("SET", "")


def test_copy_text_escapes_what_copy_reads() -> None:
    rows = [("a\tb\\c\nd\re", None, b"\x00\xff", Decimal("1.50"), 7, "")]
    types = [nvarchar(20), INT, varbinary(2), decimal(5, 2), INT, varchar(1)]
    columns = [Column(f"c{number}", type) for number, type in enumerate(types)]
    assert b"".join(copy_blocks(iter(rows), columns)) == b"a\\tb\\\\c\\nd\\re\t\\N\t\\\\x00ff\t1.50\t7\t\n"
