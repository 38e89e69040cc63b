"""What queries answered that read no data: remembered, because only definitions could change it.

Such a query computes with its values alone, or reads definitions (the catalog views and functions). The first answers
the same for ever; the second as long as the version of the definitions and the caller are the same. Nothing else is
remembered: not the rows of a table, a sequence, the clock, or anything random. Which functions are none of these,
PostgreSQL itself tells.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import psycopg
from tsqldev.interfaces import Compiled
from tsqldev.session.backend import Row, encode, oid
from tsqldev.types import SqlType

if TYPE_CHECKING:
    from tsqldev.session.session import SqlSession

ROWS_LIMIT = 200
_SIZE_LIMIT = 16_000
_ANSWERS_LIMIT = 2_000

Answer = list[Row]


class Rests(Enum):
    """What an answer rests on."""

    VALUES = "values"
    DEFINITIONS = "definitions"
    DATA = "data"


_QUOTED = re.compile(r"'(?:[^']|'')*'|--[^\n]*|\"((?:[^\"]|\"\")*)\"")
_CALL = re.compile(r"(?:\b(\w+)\s*\.\s*)?\b(\w+)\s*\(")
# Tables, PostgreSQL's own catalog, texts that are quoted otherwise, casts that look at the clock, and calls without
# parentheses.
_OTHER = re.compile(
    r"\b(?:data|information_schema)\s*\.|\bpg_\w+|\b[eu]&?'|\$[a-z_]*\$"
    r"|::\s*(?:timestamp|timestamptz|date|time|timetz|reg\w+)\b|\bcurrent_(?:date|time\w*|user|role|catalog|schema)\b|\blocaltime\w*|\bsession_user\b",
    re.IGNORECASE,
)
_READS = frozenset({"SELECT", "EXPRESSION"})
_OWN = ("sys", "meta")
# The caller's settings stand for the caller, who is known; #temp tables are looked for by sessions that have one only.
_CALLER = frozenset({("", "current_setting"), ("meta", "temporary_object")})

_FUNCTIONS = b"""
select case n.nspname when 'pg_catalog' then '' else n.nspname end, p.proname, max(p.provolatile::text),
    string_agg(case when n.nspname <> 'pg_catalog' then coalesce(nullif(p.prosrc, ''), pg_get_function_sqlbody(p.oid)) end, ' ')
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where n.nspname in ('pg_catalog', 'sys', 'meta') group by 1, 2 having max(p.provolatile::text) <> 'i'
"""


@dataclass(frozen=True, slots=True)
class Question:
    """A query with its values. `stamp` is that of the definitions, where it reads any."""

    key: Hashable
    stamp: int | None = None


class Answers:
    """Shared by all sessions of an engine."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        found = {(schema, name): (kind, body) for schema, name, kind, body in connection.execute(_FUNCTIONS).fetchall()}
        # Functions that only read definitions; every other one that is not immutable makes an answer one for once.
        stable = {key: _plain(body) for key, (kind, body) in found.items() if kind == "s" and key[0] in _OWN}
        self._fleeting = found.keys() - stable.keys() - _CALLER
        self._reading = stable.keys() | _CALLER
        while worse := {key for key in self._reading - _CALLER if self._touches(stable[key])}:
            self._fleeting |= worse
            self._reading -= worse
        self._rests: dict[str, Rests] = {}
        self._found: OrderedDict[Hashable, Answer] = OrderedDict()
        self._lock = threading.Lock()

    def rests_on(self, compiled: Compiled) -> Rests:
        if compiled.kind not in _READS or compiled.before or compiled.reads or compiled.into is not None:
            return Rests.DATA
        known = self._rests.get(compiled.sql)
        if known is None:
            known = self.of_text(compiled.sql)
            if len(self._rests) > _ANSWERS_LIMIT:
                self._rests.clear()
            self._rests[compiled.sql] = known
        return known

    def question(
        self, session: SqlSession, compiled: Compiled, types: Sequence[SqlType], data: Sequence[object]
    ) -> Question | None:
        """What is asked, if its answer may be remembered."""
        rests = self.rests_on(compiled)
        # OBJECT_ID finds the #temp tables of a session, which are no definitions.
        if rests is Rests.DATA or (rests is Rests.DEFINITIONS and session.temp_tables):
            return None
        values = tuple(encode(value) for value in data)
        if _size(values) > _SIZE_LIMIT:
            return None
        key = (compiled.sql, values, *map(oid, types))
        if rests is Rests.VALUES:
            return Question(key)
        stamp = session.catalog.stamp
        if stamp is None:
            return None
        return Question((session.catalog.version, session.principal, session.login.login_id, key), stamp)

    def known(self, question: Question) -> Answer | None:
        with self._lock:
            found = self._found.get(question.key)
            if found is not None:
                self._found.move_to_end(question.key)
            return found

    def keep(self, session: SqlSession, question: Question, rows: Answer) -> None:
        """Remember the rows that PostgreSQL answered, if they are few and no definition can have changed meanwhile."""
        if len(rows) > ROWS_LIMIT or sum(map(_size, rows)) > _SIZE_LIMIT:
            return
        if question.stamp is not None and session.catalog.stamp != question.stamp:
            return
        with self._lock:
            self._found[question.key] = rows
            if len(self._found) > _ANSWERS_LIMIT:
                self._found.popitem(last=False)

    def of_text(self, sql: str) -> Rests:
        text = _plain(sql)
        if self._touches(text):
            return Rests.DATA
        calls = {(schema.lower(), name.lower()) for schema, name in _CALL.findall(text)}
        return Rests.DEFINITIONS if calls & self._reading or re.search(r"\bmeta\s*\.", text) else Rests.VALUES

    def _touches(self, text: str) -> bool:
        if _OTHER.search(text):
            return True
        return any((schema.lower(), name.lower()) in self._fleeting for schema, name in _CALL.findall(text))


def _size(values: Iterable[object]) -> int:
    return sum(len(value) for value in values if isinstance(value, str | bytes))


def _plain(sql: str) -> str:
    """The text without its literals, and without the quotes of names that are words."""

    def word(match: re.Match[str]) -> str:
        name = match[1]
        return "''" if name is None else name if re.fullmatch(r"\w+", name) else "q"

    return _QUOTED.sub(word, sql)
