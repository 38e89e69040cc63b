"""Words of a T-SQL statement, with their places in the text: what the parsers of DDL and security statements read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tsqldev.errors import SqlError

WORD, NAME, STRING, NUMBER, BINARY, VARIABLE, SYMBOL, END = (
    "word", "name", "string", "number", "binary", "variable", "symbol", "end",
)  # fmt: skip

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*)
    |(?P<comment>/\*)
    |(?P<bracket>\[(?:[^\]]|\]\])*\])
    |(?P<quoted>"(?:[^"]|"")*")
    |(?P<string>[Nn]?'(?:[^']|'')*')
    |(?P<binary>0[xX][0-9a-fA-F]*)
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<variable>@@?[\w$#@]+)
    |(?P<word>[^\W\d][\w$#@]*|\#\#?[\w$#@]*)
    |(?P<symbol>::|<>|<=|>=|!=|!<|!>|\+=|-=|[-+*/%()=<>.,;:&|^~!])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """`value` is the upper-case word, the name without its brackets, the text of a string, or the symbol itself."""

    kind: str
    value: str
    start: int
    end: int
    text: str

    def is_name(self) -> bool:
        return self.kind in (WORD, NAME)


def tokenize(text: str, *, quoted_identifier: bool = True) -> list[Token]:
    """The tokens of `text`, ended by one of kind `end`. Comments nest, as in T-SQL."""
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise SqlError(102, f"Incorrect syntax near '{text[at]}'.", severity=15, line=text.count("\n", 0, at) + 1)
        kind, raw = match.lastgroup, match.group()
        if kind == "comment":
            at = _comment_end(text, at)
            continue
        end = match.end()
        if kind == "bracket":
            tokens.append(Token(NAME, raw[1:-1].replace("]]", "]"), at, end, raw))
        elif kind == "quoted":
            tokens.append(Token(NAME if quoted_identifier else STRING, raw[1:-1].replace('""', '"'), at, end, raw))
        elif kind == "string":
            tokens.append(Token(STRING, raw[raw.index("'") + 1 : -1].replace("''", "'"), at, end, raw))
        elif kind == "word":
            tokens.append(Token(WORD, raw.upper(), at, end, raw))
        elif kind in (NUMBER, BINARY, VARIABLE, SYMBOL):
            tokens.append(Token(kind, raw, at, end, raw))
        at = end
    tokens.append(Token(END, "", len(text), len(text), ""))
    return tokens


def _comment_end(text: str, at: int) -> int:
    depth = 0
    while at < len(text):
        if text.startswith("/*", at):
            depth, at = depth + 1, at + 2
        elif text.startswith("*/", at):
            depth, at = depth - 1, at + 2
            if depth == 0:
                return at
        else:
            at += 1
    raise SqlError(113, "Missing end comment mark '*/'.", severity=15)


class Reader:
    """A cursor over the tokens of one statement."""

    def __init__(self, text: str, *, quoted_identifier: bool = True) -> None:
        self.text = text
        self.tokens = tokenize(text, quoted_identifier=quoted_identifier)
        self.at = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def ahead(self, count: int = 1) -> Token:
        return self.tokens[min(self.at + count, len(self.tokens) - 1)]

    def next(self) -> Token:
        token = self.token
        if token.kind != END:
            self.at += 1
        return token

    def peek(self, *words: str) -> bool:
        """Whether the next tokens are these words or symbols."""
        for offset, word in enumerate(words):
            token = self.ahead(offset)
            if token.kind not in (WORD, SYMBOL) or token.value != word:
                return False
        return True

    def take(self, *words: str) -> bool:
        if not self.peek(*words):
            return False
        self.at += len(words)
        return True

    def take_any(self, *words: str) -> str | None:
        if self.token.kind == WORD and self.token.value in words:
            return self.next().value
        return None

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.take(word):
                raise self.error()

    def name(self) -> str:
        """One identifier, as written."""
        token = self.token
        if not token.is_name():
            raise self.error()
        self.at += 1
        return token.text if token.kind == WORD else token.value

    def name_or_string(self) -> str:
        return self.next().value if self.token.kind == STRING else self.name()

    def qualified(self) -> tuple[str, ...]:
        """A name of one to four parts; an omitted part (`db..t`) is an empty string."""
        parts = [self.name()]
        while self.peek("."):
            self.next()
            parts.append("" if self.peek(".") else self.name())
        return tuple(parts)

    def string(self) -> str:
        if self.token.kind != STRING:
            raise self.error()
        return self.next().value

    def integer(self) -> int:
        negative = self.take("-")
        self.take("+")
        if self.token.kind != NUMBER:
            raise self.error()
        value = int(self.next().value)
        return -value if negative else value

    def parenthesised(self) -> str:
        """The text between this `(` and its `)`, as written."""
        opening = self.token
        self.expect("(")
        depth = 1
        while depth:
            token = self.next()
            if token.kind == END:
                raise self.error()
            depth += {"(": 1, ")": -1}.get(token.value, 0) if token.kind == SYMBOL else 0
        return self.text[opening.end : self.tokens[self.at - 1].start]

    def skip_semicolons(self) -> None:
        while self.take(";"):
            pass

    def end(self) -> None:
        """Nothing but semicolons may follow."""
        self.skip_semicolons()
        if self.token.kind != END:
            raise self.error()

    def error(self) -> SqlError:
        token = self.token
        line = self.text.count("\n", 0, token.start) + 1
        if token.kind == END:
            last = self.tokens[max(0, self.at - 1)]
            return SqlError(102, f"Incorrect syntax near '{last.text}'.", severity=15, line=line)
        if token.kind == WORD and token.value in _RESERVED:
            return SqlError(156, f"Incorrect syntax near the keyword '{token.text}'.", severity=15, line=line)
        return SqlError(102, f"Incorrect syntax near '{token.value}'.", severity=15, line=line)


_RESERVED = frozenset(
    [
        "ADD",
        "ALL",
        "ALTER",
        "AND",
        "ANY",
        "AS",
        "AUTHORIZATION",
        "BEGIN",
        "BETWEEN",
        "BY",
        "CASE",
        "CHECK",
        "CLUSTERED",
        "COLLATE",
        "COLUMN",
        "CONSTRAINT",
        "CREATE",
        "CROSS",
        "DATABASE",
        "DEFAULT",
        "DELETE",
        "DENY",
        "DISTINCT",
        "DROP",
        "ELSE",
        "END",
        "EXEC",
        "EXECUTE",
        "EXISTS",
        "FOR",
        "FOREIGN",
        "FROM",
        "GRANT",
        "GROUP",
        "HAVING",
        "IDENTITY",
        "IF",
        "IN",
        "INDEX",
        "INNER",
        "INSERT",
        "INTO",
        "IS",
        "JOIN",
        "KEY",
        "LEFT",
        "LIKE",
        "NONCLUSTERED",
        "NOT",
        "NULL",
        "ON",
        "OR",
        "ORDER",
        "PRIMARY",
        "PROCEDURE",
        "REFERENCES",
        "REVOKE",
        "RIGHT",
        "SCHEMA",
        "SELECT",
        "SET",
        "TABLE",
        "THEN",
        "TO",
        "TOP",
        "TRIGGER",
        "TRUNCATE",
        "UNION",
        "UNIQUE",
        "UPDATE",
        "USE",
        "USER",
        "VALUES",
        "VIEW",
        "WHERE",
        "WITH",
    ]
)
