"""The tokens of a T-SQL text, with their places, for the splitter and for the statements the session runs itself.

Queries, DML, DDL and security statements are only delimited here; their own parsers read their text again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tsqldev.errors import SqlError

WORD = "word"
QUOTED = "quoted"
STRING = "string"
NUMBER = "number"
BINARY = "binary"
VARIABLE = "variable"
PUNCT = "punct"
END = "end"

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*)
  | (?P<comment>/\*)
  | (?P<string>[nN]?'(?:[^']|'')*')
  | (?P<openstring>[nN]?')
  | (?P<quoted>\[(?:[^\]]|\]\])*\]|"(?:[^"]|"")*")
  | (?P<openquoted>[\["])
  | (?P<binary>0[xX][0-9a-fA-F]*)
  | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<variable>@@?[\w@\#$]*)
  | (?P<word>[^\W\d][\w@\#$]*|\#\#?[\w@\#$]+|\$[A-Za-z_]\w*)
  | (?P<money>[$£€]-?\d*(?:\.\d*)?)
  | (?P<punct>::|<>|<=|>=|!=|!<|!>|\+=|-=|\*=|/=|%=|&=|\|=|\^=|[-+*/%&|^~<>=().,;:?!{}\\])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """`word` is the upper-case text of a WORD, empty otherwise: only an unquoted word can be a keyword."""

    kind: str
    text: str
    start: int
    end: int
    line: int
    word: str = ""

    @property
    def name(self) -> str:
        """The identifier that this token spells."""
        if self.kind == QUOTED:
            quote = self.text[-1]
            return self.text[1:-1].replace(quote * 2, quote)
        return self.text

    @property
    def value(self) -> str:
        """The characters of a string literal."""
        body = self.text[1:] if self.text[0] in "nN" else self.text
        return body[1:-1].replace("''", "'")


def tokens(text: str) -> list[Token]:
    """All tokens of `text` and a final END token. Raises 105 or 113 for what is left open, 102 for what is none."""
    result: list[Token] = []
    position = 0
    line = 1
    length = len(text)
    match_at = _TOKEN.match
    while position < length:
        match = match_at(text, position)
        if match is None:
            raise SqlError(102, f"Incorrect syntax near '{text[position]}'.", severity=15, line=line)
        kind = match.lastgroup or ""
        if kind == "space":
            line += text.count("\n", position, match.end())
            position = match.end()
            continue
        if kind == "comment":
            end = _comment_end(text, position)
            if end < 0:
                raise SqlError(113, "Missing end comment mark '*/'.", severity=15, line=line)
            line += text.count("\n", position, end)
            position = end
            continue
        if kind in ("openstring", "openquoted"):
            shown = text[match.end() : match.end() + 128]
            raise SqlError(
                105, f"Unclosed quotation mark after the character string '{shown}'.", severity=15, line=line
            )
        body = match.group()
        if kind == "money":
            kind = NUMBER
        if len(body) > 128 and kind in (WORD, QUOTED):
            _too_long(body, line)
        result.append(Token(kind, body, position, match.end(), line, body.upper() if kind == WORD else ""))
        line += body.count("\n")
        position = match.end()
    result.append(Token(END, "", length, length, line))
    return result


def _too_long(body: str, line: int) -> None:
    name = body[1:-1].replace(body[-1] * 2, body[-1]) if body[0] in '["' else body
    if len(name) > 128:
        raise SqlError(
            103,
            f"The identifier that starts with '{name[:128]}' is too long. Maximum length is 128.",
            severity=15,
            line=line,
        )


def _comment_end(text: str, position: int) -> int:
    """Comments nest in T-SQL."""
    depth = 0
    while True:
        opened = text.find("/*", position)
        closed = text.find("*/", position)
        if closed < 0:
            return -1
        if 0 <= opened < closed:
            depth += 1
            position = opened + 2
        else:
            depth -= 1
            position = closed + 2
            if depth == 0:
                return position


def near(token: Token) -> SqlError:
    """Error 102 at a token."""
    if token.kind == END:
        return SqlError(102, "Incorrect syntax near the end of the batch.", severity=15, line=token.line)
    if token.word in RESERVED:
        return SqlError(156, f"Incorrect syntax near the keyword '{token.text}'.", severity=15, line=token.line)
    return SqlError(102, f"Incorrect syntax near '{token.name}'.", severity=15, line=token.line)


def split_commas(items: Sequence[Token]) -> list[list[Token]]:
    """The comma-separated parts of a token list, parentheses respected."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in items:
        if token.text == "(" and token.kind == PUNCT:
            depth += 1
        elif token.text == ")" and token.kind == PUNCT:
            depth -= 1
        if depth == 0 and token.kind == PUNCT and token.text == ",":
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def source(text: str, items: Sequence[Token]) -> str:
    """The text that the tokens span."""
    return text[items[0].start : items[-1].end] if items else ""


_RESERVED_WORDS = """
    ADD ALL ALTER AND ANY AS ASC AUTHORIZATION BACKUP BEGIN BETWEEN BREAK BROWSE BULK BY CASCADE CASE CHECK
    CHECKPOINT CLOSE CLUSTERED COALESCE COLLATE COLUMN COMMIT COMPUTE CONSTRAINT CONTAINS CONTAINSTABLE CONTINUE
    CONVERT CREATE CROSS CURRENT CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER CURSOR DATABASE DBCC
    DEALLOCATE DECLARE DEFAULT DELETE DENY DESC DISK DISTINCT DISTRIBUTED DOUBLE DROP DUMP ELSE END ERRLVL ESCAPE
    EXCEPT EXEC EXECUTE EXISTS EXIT EXTERNAL FETCH FILE FILLFACTOR FOR FOREIGN FREETEXT FREETEXTTABLE FROM FULL
    FUNCTION GOTO GRANT GROUP HAVING HOLDLOCK IDENTITY IDENTITYCOL IDENTITY_INSERT IF IN INDEX INNER INSERT
    INTERSECT INTO IS JOIN KEY KILL LEFT LIKE LINENO LOAD MERGE NATIONAL NOCHECK NONCLUSTERED NOT NULL NULLIF OF OFF
    OFFSETS ON OPEN OPENDATASOURCE OPENQUERY OPENROWSET OPENXML OPTION OR ORDER OUTER OVER PERCENT PIVOT PLAN
    PRECISION PRIMARY PRINT PROC PROCEDURE PUBLIC RAISERROR READ READTEXT RECONFIGURE REFERENCES REPLICATION RESTORE
    RESTRICT RETURN REVERT REVOKE RIGHT ROLLBACK ROWCOUNT ROWGUIDCOL RULE SAVE SCHEMA SECURITYAUDIT SELECT
    SEMANTICKEYPHRASETABLE SEMANTICSIMILARITYDETAILSTABLE SEMANTICSIMILARITYTABLE SESSION_USER SET SETUSER SHUTDOWN
    SOME STATISTICS SYSTEM_USER TABLE TABLESAMPLE TEXTSIZE THEN TO TOP TRAN TRANSACTION TRIGGER TRUNCATE TRY_CONVERT
    TSEQUAL UNION UNIQUE UNPIVOT UPDATE UPDATETEXT USE USER VALUES VARYING VIEW WAITFOR WHEN WHERE WHILE WITH WITHIN
    WRITETEXT
"""
RESERVED = frozenset(_RESERVED_WORDS.split())
