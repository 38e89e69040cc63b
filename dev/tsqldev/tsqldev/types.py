"""T-SQL types, and how a value of each is held in PostgreSQL and in Python.

One representation is used for stored columns, for parameters and for result rows, so that no layer converts twice:

| T-SQL                                   | PostgreSQL   | Python  | meaning of the stored value                          |
|-----------------------------------------|--------------|---------|------------------------------------------------------|
| bit, tinyint, smallint                  | int2         | int     | bit is 0 or 1                                        |
| int / bigint                            | int4 / int8  | int     |                                                      |
| decimal, numeric, money, smallmoney     | numeric(p,s) | Decimal | money is (19,4), smallmoney (10,4)                   |
| real / float                            | float4/8     | float   |                                                      |
| char varchar nchar nvarchar text ntext sysname xml | text | str     | length is enforced where a value is assigned         |
| binary varbinary image                  | bytea        | bytes   |                                                      |
| rowversion                              | int8         | int     | eight bytes, big-endian, on the wire                 |
| uniqueidentifier                        | uuid         | UUID    |                                                      |
| date                                    | int4         | int     | days since 0001-01-01                                |
| time(n)                                 | int8         | int     | ticks of 100 ns since midnight                       |
| datetime2(n)                            | int8         | int     | ticks of 100 ns since 0001-01-01T00:00               |
| datetimeoffset(n)                       | numeric(24,0)| Decimal | UTC ticks of 100 ns * 4096 + offset minutes + 2048   |
| datetime                                | int8         | int     | 1/300 s since 1900-01-01T00:00, may be negative      |
| smalldatetime                           | int4         | int     | minutes since 1900-01-01T00:00                       |
"""

from __future__ import annotations

from dataclasses import dataclass, replace

DEFAULT_COLLATION = "SQL_Latin1_General_CP1_CI_AS"
BIN2_COLLATION = "Latin1_General_100_BIN2"

MAX = -1

CHARACTER = frozenset({"char", "varchar", "nchar", "nvarchar", "text", "ntext", "sysname", "xml"})
UNICODE = frozenset({"nchar", "nvarchar", "ntext", "sysname", "xml"})
BINARY = frozenset({"binary", "varbinary", "image"})
EXACT = frozenset({"bit", "tinyint", "smallint", "int", "bigint", "decimal", "numeric", "money", "smallmoney"})
INTEGER = frozenset({"bit", "tinyint", "smallint", "int", "bigint"})
TEMPORAL = frozenset({"date", "time", "datetime2", "datetimeoffset", "datetime", "smalldatetime"})

_POSTGRES = {
    "bit": "int2",
    "tinyint": "int2",
    "smallint": "int2",
    "int": "int4",
    "bigint": "int8",
    "real": "float4",
    "float": "float8",
    "rowversion": "int8",
    "uniqueidentifier": "uuid",
    "date": "int4",
    "time": "int8",
    "datetime2": "int8",
    "datetimeoffset": "numeric(24,0)",
    "datetime": "int8",
    "smalldatetime": "int4",
    "money": "numeric(19,4)",
    "smallmoney": "numeric(10,4)",
}


@dataclass(frozen=True, slots=True)
class SqlType:
    """A T-SQL type as SQL Server would describe it.

    `length` counts characters for character types and bytes for binary ones; `MAX` stands for (max).
    `precision` and `scale` belong to decimal; `scale` alone (0 to 7) to time, datetime2 and datetimeoffset.
    `collation` is set on character types only. The name `null` is the type of a bare NULL.
    """

    name: str
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    collation: str | None = None
    nullable: bool = True

    def __str__(self) -> str:
        if self.name == "sysname":
            return "sysname"
        if self.length is not None:
            return f"{self.name}({'max' if self.length == MAX else self.length})"
        if self.name in ("decimal", "numeric"):
            return f"{self.name}({self.precision},{self.scale})"
        if self.name in ("time", "datetime2", "datetimeoffset"):
            return f"{self.name}({self.scale})"
        return self.name

    @property
    def postgres(self) -> str:
        """The PostgreSQL type that holds a value of this type."""
        if self.name in CHARACTER or self.name == "null":
            return "text"
        if self.name in BINARY:
            return "bytea"
        if self.name in ("decimal", "numeric"):
            return f"numeric({self.precision},{self.scale})"
        return _POSTGRES[self.name]

    def with_nullable(self, nullable: bool) -> SqlType:
        return replace(self, nullable=nullable)


NULL = SqlType("null")
BIT = SqlType("bit")
TINYINT = SqlType("tinyint")
SMALLINT = SqlType("smallint")
INT = SqlType("int")
BIGINT = SqlType("bigint")
FLOAT = SqlType("float")
DATETIME = SqlType("datetime")
UNIQUEIDENTIFIER = SqlType("uniqueidentifier")
SYSNAME = SqlType("sysname", length=128, collation=DEFAULT_COLLATION, nullable=False)


def varchar(length: int, collation: str = DEFAULT_COLLATION) -> SqlType:
    return SqlType("varchar", length=length, collation=collation)


def nvarchar(length: int, collation: str = DEFAULT_COLLATION) -> SqlType:
    return SqlType("nvarchar", length=length, collation=collation)


def varbinary(length: int) -> SqlType:
    return SqlType("varbinary", length=length)


def decimal(precision: int, scale: int) -> SqlType:
    return SqlType("decimal", precision=precision, scale=scale)
