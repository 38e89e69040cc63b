"""The seed plan of one PostgreSQL fixture: a table, a closed list of column types, every row and their digest.

The plan is complete: nothing that the seed routine does is decided by anything else. Values are the canonical text that
PostgreSQL itself gives for them (ISO dates in UTC, bytea in hex, a decimal with all digits of its scale), so that the
bytes of a plan have one meaning, and the rows of a table that was read can be compared with those of a plan.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_dpone.contracts import canonical, rules
from airflow_provider_dpone.contracts.errors import AuthorityRefused
from airflow_provider_dpone.contracts.nonproduction.scope import stored_object, text

SEED_PLAN_SCHEMA = "dpone.postgres-seed-plan.v1"
SOURCE_SCHEMA = "dpone.postgres-source-schema.v1"
COLUMNS_MAX = 256
ROWS_MAX = 100_000
#: PostgreSQL cuts a longer name without an error.
NAME_BYTES = 63

Row = tuple[str | None, ...]

_NUMERIC = re.compile(r"numeric\(([1-9][0-9]?),([0-9]{1,2})\)")
_VARCHAR = re.compile(r"character varying\(([1-9][0-9]{0,4})\)")
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_DAY = r"(?!0000)[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{0,5}[1-9])?"
_FORMS: Mapping[str, re.Pattern[str]] = {
    "boolean": re.compile("true|false"),
    "bytea": re.compile(r"\\x(?:[0-9a-f]{2})*"),
    "uuid": re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "date": re.compile(_DAY),
    "time without time zone": re.compile(_TIME),
    "timestamp without time zone": re.compile(f"{_DAY} {_TIME}"),
    "timestamp with time zone": re.compile(rf"{_DAY} {_TIME}\+00"),
}
_INTEGER_BITS = {"smallint": 15, "integer": 31, "bigint": 63}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedColumn:
    """A column. ``type`` is what PostgreSQL's ``format_type`` says, from the closed list of this module."""

    name: str
    type: str
    nullable: bool

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            _name(self.name)
            value_rule(self.type)
            rules.one_of(self.nullable, (True, False), "seed_column")

    def members(self) -> dict[str, object]:
        return {"name": self.name, "type": self.type, "nullable": self.nullable}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedPlan:
    """What one fixture_seed work item writes: this table, made anew, with exactly these rows."""

    fixture_plan_sha256: str
    work_item_sha256: str
    object_id: str
    #: Database, schema and table.
    qualified_name: tuple[str, str, str]
    columns: tuple[SeedColumn, ...]
    #: Columns of the primary key; without any there is none.
    key: tuple[str, ...]
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        with rules.refusing_as(AuthorityRefused):
            rules.digest(self.fixture_plan_sha256)
            rules.digest(self.work_item_sha256)
            text(self.object_id)
            if type(self.qualified_name) is not tuple or len(self.qualified_name) != 3:
                rules.refuse("seed_name")
            for part in self.qualified_name:
                _name(part)
            rules.records(self.columns, SeedColumn, "seed_columns", at_most=COLUMNS_MAX)
            names = [column.name for column in self.columns]
            if len(set(names)) != len(names):
                rules.refuse("seed_columns")
            required = {column.name for column in self.columns if not column.nullable}
            if type(self.key) is not tuple or len(set(self.key)) != len(self.key) or not set(self.key) <= required:
                rules.refuse("seed_key")
            self._require_rows()
            if len(self.document()) > canonical.QUALIFICATION_DOCUMENT_LIMIT:
                rules.refuse("seed_size")

    def _require_rows(self) -> None:
        if type(self.rows) is not tuple or len(self.rows) > ROWS_MAX:
            rules.refuse("seed_rows")
        checks = [(value_rule(column.type), column.nullable) for column in self.columns]
        for row in self.rows:
            if type(row) is not tuple or len(row) != len(checks):
                rules.refuse("seed_rows")
            for value, (fits, nullable) in zip(row, checks, strict=True):
                if not nullable if value is None else type(value) is not str or not fits(value):
                    rules.refuse("seed_value")

    @property
    def sha256(self) -> str:
        return canonical.exact_sha256(self.members())

    @property
    def schema_sha256(self) -> str:
        return schema_sha256(self.columns, self.key)

    @property
    def content_sha256(self) -> str:
        return content_sha256(self.rows)

    def members(self) -> dict[str, object]:
        return {
            "schema": SEED_PLAN_SCHEMA,
            "fixture_plan_sha256": self.fixture_plan_sha256,
            "work_item_sha256": self.work_item_sha256,
            "object_id": self.object_id,
            "qualified_name": self.qualified_name,
            "columns": [column.members() for column in self.columns],
            "key": self.key,
            "rows": self.rows,
            "row_count": len(self.rows),
            "content_sha256": self.content_sha256,
        }

    def document(self) -> bytes:
        return canonical.exact_bytes(self.members())


def value_rule(type_name: object) -> Callable[[str], bool]:
    """Whether a text is the canonical one of a value of this type. A type outside of the closed list is refused."""
    if type(type_name) is not str:
        rules.refuse("seed_type")
    if type_name in _FORMS:
        form = _FORMS[type_name]
        return lambda value: form.fullmatch(value) is not None
    if type_name in _INTEGER_BITS:
        limit = 2 ** _INTEGER_BITS[type_name]
        return lambda value: _INTEGER.fullmatch(value) is not None and -limit <= int(value) < limit
    if type_name == "text":
        return _is_text
    if match := _VARCHAR.fullmatch(type_name):
        length = int(match[1])
        return lambda value: _is_text(value) and len(value) <= length
    match = _NUMERIC.fullmatch(type_name)
    if match is None:
        rules.refuse("seed_type")
    return _numeric_rule(int(match[1]), int(match[2]))


def _row_digest(row: Sequence[str | None]) -> bytes:
    """Of one row: NULL, and the length and bytes of every other value, so that no two rows look alike."""
    framed = hashlib.sha256()
    for value in row:
        if value is None:
            framed.update(b"N")
        else:
            data = value.encode()
            framed.update(b"V%d:" % len(data))
            framed.update(data)
    return framed.digest()


@rules.shaped("seed_rows")
def content_sha256(rows: Iterable[Sequence[str | None]]) -> str:
    """Of rows as a multiset: their order does not matter, how often each is there does."""
    return canonical.sha256_text(b"".join(sorted(_row_digest(row) for row in rows)))


@rules.shaped("seed_columns")
def schema_sha256(columns: Iterable[SeedColumn], key: Sequence[str]) -> str:
    """Of the columns in their order, and of the primary key."""
    return canonical.exact_sha256(
        {"schema": SOURCE_SCHEMA, "columns": [column.members() for column in columns], "key": list(key)}
    )


def seed_plan_from(body: Mapping[str, Any]) -> SeedPlan:
    """Rebuild the typed record from decoded members."""
    names = ("schema", "fixture_plan_sha256", "work_item_sha256", "object_id", "qualified_name", "columns", "key")
    with rules.refusing_as(AuthorityRefused), rules.shaped("seed_plan"):
        values = rules.members(body, [*names, "rows", "row_count", "content_sha256"], "seed_plan")
        del values["schema"]
        count, content = values.pop("row_count"), values.pop("content_sha256")
        columns = rules.array(values.pop("columns"), "seed_columns")
        values["columns"] = tuple(
            SeedColumn(**rules.members(column, ["name", "type", "nullable"], "seed_column")) for column in columns
        )
        values["qualified_name"] = rules.array(values["qualified_name"], "seed_name")
        values["key"] = rules.array(values["key"], "seed_key")
        rows = rules.array(values.pop("rows"), "seed_rows")
        plan = SeedPlan(rows=tuple(rules.array(row, "seed_rows") for row in rows), **values)
        if type(count) is not int or (count, content) != (len(plan.rows), plan.content_sha256):
            rules.refuse("seed_content")
        return plan


def decode_seed_plan(document: object, sha256: str) -> SeedPlan:
    """Read a stored plan back: same digest *and* same bytes."""
    with rules.refusing_as(AuthorityRefused):
        plan = seed_plan_from(stored_object(document, SEED_PLAN_SCHEMA))
        if plan.sha256 != rules.digest(sha256) or plan.document() != document:
            rules.refuse("document")
        return plan


def _name(value: object) -> str:
    name = text(value)
    if len(name.encode()) > NAME_BYTES:
        rules.refuse("seed_name")
    return name


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in value


def _numeric_rule(precision: int, scale: int) -> Callable[[str], bool]:
    if not scale <= precision <= 38:
        rules.refuse("seed_type")
    whole = f"(?:0|[1-9][0-9]{{0,{precision - scale - 1}}})" if precision > scale else "0"
    digits = rf"\.[0-9]{{{scale}}}" if scale else ""
    form, zero = re.compile(f"-?{whole}{digits}"), re.compile(r"-[0.]*")
    return lambda value: form.fullmatch(value) is not None and zero.fullmatch(value) is None
