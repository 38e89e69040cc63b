"""Cut a batch into statements and control flow.

T-SQL needs no semicolons: a statement ends where a word stands that can only begin the next one. Each statement kind
knows which of those words may stand inside it (SET in UPDATE, SELECT after INSERT or UNION, UPDATE after ON ...).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tsqldev.errors import SqlError, unsupported
from tsqldev.session.lexer import (
    END,
    NUMBER,
    PUNCT,
    QUOTED,
    RESERVED,
    VARIABLE,
    WORD,
    Token,
    near,
    source,
    tokens,
)


@dataclass(slots=True)
class Simple:
    """One statement without inner ones. `first` is its first word, upper case; empty for a bare procedure call."""

    first: str
    text: str
    line: int
    tokens: list[Token]
    base: int = 0  # where `text` begins in the source that the tokens' places count in

    def part(self, items: Sequence[Token]) -> str:
        """The text that some of the tokens span."""
        return self.text[items[0].start - self.base : items[-1].end - self.base] if items else ""

    def words(self, count: int) -> tuple[str, ...]:
        return tuple(token.word for token in self.tokens[:count])


@dataclass(slots=True)
class Block:
    line: int
    body: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class If:
    line: int
    condition: str
    then: Node
    otherwise: Node | None = None


@dataclass(slots=True)
class While:
    line: int
    condition: str
    body: Node


@dataclass(slots=True)
class Try:
    line: int
    body: list[Node]
    handler: list[Node]


Node = Simple | Block | If | While | Try

_STARTER_WORDS = """
    SELECT INSERT UPDATE DELETE MERGE EXEC EXECUTE SET DECLARE PRINT RAISERROR RETURN BEGIN END ELSE IF WHILE BREAK
    CONTINUE GOTO WAITFOR COMMIT ROLLBACK SAVE CREATE ALTER DROP GRANT DENY REVOKE TRUNCATE USE REVERT KILL BULK
    BACKUP RESTORE DBCC CHECKPOINT OPEN CLOSE DEALLOCATE FETCH RECONFIGURE SHUTDOWN LINENO READTEXT WRITETEXT
    UPDATETEXT SETUSER
"""
_STARTERS = frozenset(_STARTER_WORDS.split())
_MODULES = frozenset({"PROC", "PROCEDURE", "TRIGGER", "VIEW", "FUNCTION"})
_QUERY_VERBS = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE"})


def split(text: str) -> list[Node]:
    """The statements of a batch or module body, in order. Raises 102, 105, 111, 113, 156 for what cannot be parsed."""
    parser = _Parser(text)
    return parser.batch()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.at = 0

    # -- cursor

    def peek(self, ahead: int = 0) -> Token:
        index = self.at + ahead
        return self.tokens[index] if index < len(self.tokens) else self.tokens[-1]

    def is_punct(self, token: Token, text: str) -> bool:
        return token.kind == PUNCT and token.text == text

    def skip_semicolons(self) -> None:
        while self.is_punct(self.peek(), ";"):
            self.at += 1

    # -- structure

    def batch(self) -> list[Node]:
        body: list[Node] = []
        self.skip_semicolons()
        if self.peek().kind in (WORD, QUOTED) and not self._begins_statement(self.peek(), self.peek(1)):
            body.append(self._simple("", self._call_end()))
        while True:
            self.skip_semicolons()
            if self.peek().kind == END:
                return body
            body.append(self.statement(len(body) == 0))

    def statement(self, first_of_batch: bool = False) -> Node:
        token = self.peek()
        word = token.word
        follow = self.peek(1).word
        if word == "BEGIN" and follow not in ("TRAN", "TRANSACTION", "DISTRIBUTED"):
            return self._begin(token)
        if word == "IF":
            self.at += 1
            condition = self._condition(token)
            then = self._nested()
            mark = self.at
            self.skip_semicolons()
            otherwise: Node | None = None
            if self.peek().word == "ELSE":
                self.at += 1
                otherwise = self._nested()
            else:
                self.at = mark
            return If(token.line, condition, then, otherwise)
        if word == "WHILE":
            self.at += 1
            condition = self._condition(token)
            return While(token.line, condition, self._nested())
        if word in ("CREATE", "ALTER") and self._module_kind():
            if not first_of_batch:
                raise SqlError(
                    111,
                    f"'{word} {self._module_kind()}' must be the first statement in a query batch.",
                    severity=15,
                    line=token.line,
                )
            module = self._simple(word, len(self.tokens) - 1)
            # The stored definition is the whole batch, comments and blanks around it included.
            module.text, module.line, module.base = self.text, 1, 0
            return module
        if not self._begins_statement(token, self.peek(1)):
            if token.kind == WORD and self.is_punct(self.peek(1), ":"):
                raise unsupported("labels and GOTO")
            raise near(token)
        if word in ("END", "ELSE"):
            raise near(token)
        return self._simple(word, self._end_of_simple())

    def _nested(self) -> Node:
        if self.peek().kind == END or self.is_punct(self.peek(), ";"):
            raise near(self.peek())
        return self.statement()

    def _module_kind(self) -> str:
        kind = self.peek(1).word
        if kind == "OR" and self.peek(2).word == "ALTER":
            kind = self.peek(3).word
        return kind if kind in _MODULES else ""

    def _begin(self, token: Token) -> Node:
        follow = self.peek(1).word
        if follow in ("DIALOG", "CONVERSATION", "ATOMIC", "CATCH"):
            raise near(self.peek(1)) if follow == "CATCH" else unsupported(f"BEGIN {follow}")
        if follow == "TRY":
            self.at += 2
            body = self._until_end("TRY")
            self.skip_semicolons()
            if self.peek().word != "BEGIN" or self.peek(1).word != "CATCH":
                raise near(self.peek())
            self.at += 2
            return Try(token.line, body, self._until_end("CATCH"))
        self.at += 1
        body = self._until_end("")
        if not body:
            raise near(self.tokens[self.at - 1])
        return Block(token.line, body)

    def _until_end(self, closing: str) -> list[Node]:
        body: list[Node] = []
        while True:
            self.skip_semicolons()
            token = self.peek()
            if token.kind == END:
                raise near(token)
            if token.word == "END" and (not closing or self.peek(1).word == closing):
                self.at += 2 if closing else 1
                return body
            body.append(self.statement())

    def _condition(self, owner: Token) -> str:
        """The boolean expression after IF or WHILE: up to the first word that begins a statement."""
        start = self.at
        depth = 0
        cases = 0
        while True:
            token = self.peek()
            if token.kind == END:
                raise near(token)
            if token.kind == PUNCT and token.text == "(":
                depth += 1
            elif token.kind == PUNCT and token.text == ")":
                depth -= 1
            elif depth == 0 and token.word:
                if token.word == "CASE":
                    cases += 1
                elif token.word == "END" and cases:
                    cases -= 1
                elif token.word == "ELSE" and cases:
                    pass
                elif self._begins_statement(token, self.peek(1)) and not (
                    token.word == "UPDATE" and self.is_punct(self.peek(1), "(")
                ):
                    break
            elif depth == 0 and self.is_punct(token, ";"):
                break
            self.at += 1
        if self.at == start:
            raise near(owner)
        return source(self.text, self.tokens[start : self.at])

    # -- simple statements

    def _begins_statement(self, token: Token, follow: Token) -> bool:
        word = token.word
        if not word:
            return False
        if word in _STARTERS:
            return True
        if word == "WITH":
            return True
        if word == "THROW":
            return follow.kind in (NUMBER, VARIABLE, END) or self.is_punct(follow, ";") or follow.word in _STARTERS
        return word in ("ENABLE", "DISABLE") and follow.word == "TRIGGER"

    def _simple(self, first: str, end: int) -> Simple:
        items = self.tokens[self.at : end]
        if not items:
            raise near(self.peek())
        self.at = end
        while len(items) > 1 and self.is_punct(items[-1], ";"):
            items.pop()
        return Simple(
            "EXEC" if first == "EXECUTE" else first,
            source(self.text, items),
            items[0].line,
            items,
            items[0].start,
        )

    def _call_end(self) -> int:
        """The end of a procedure call that begins a batch without EXEC."""
        index = self.at + 1
        while index < len(self.tokens) - 1:
            token = self.tokens[index]
            if self.is_punct(token, ";") or self._begins_statement(token, self.tokens[index + 1]):
                break
            index += 1
        return index

    def _end_of_simple(self) -> int:
        first = self.peek().word
        state = _State(first, self.tokens, self.at)
        index = self.at + 1
        depth = 0
        cases = 0
        while index < len(self.tokens) - 1:
            token = self.tokens[index]
            if token.kind == PUNCT:
                if token.text == "(":
                    depth += 1
                elif token.text == ")":
                    depth -= 1
                elif token.text == ";" and depth <= 0:
                    return index
            elif depth <= 0 and token.word:
                word = token.word
                if word == "CASE":
                    cases += 1
                elif cases and word in ("END", "ELSE"):
                    cases -= word == "END"
                elif (
                    word != "WITH"
                    and self._begins_statement(token, self.tokens[index + 1])
                    and not state.belongs(index)
                ):
                    return index
                state.saw(word, index)
            index += 1
        return index


class _State:
    """What has been seen of one simple statement: enough to tell an inner word from the next statement."""

    def __init__(self, first: str, items: list[Token], start: int) -> None:
        self.first = first
        self.items = items
        self.start = start
        self.second = items[start + 1].word
        self.verb = first if first in _QUERY_VERBS else ""
        self.has_source = False
        self.has_set = False
        self.has_to = False
        self.throw_word = False

    def saw(self, word: str, index: int) -> None:
        if self.first == "WITH" and not self.verb and word in _QUERY_VERBS:
            self.verb = word
        elif word in ("SELECT", "VALUES", "EXEC", "EXECUTE") or (
            word == "DEFAULT" and self.items[index + 1].word == "VALUES"
        ):
            self.has_source = True
        if word == "SET":
            self.has_set = True
        if word in ("TO", "FROM") and self.first in ("GRANT", "DENY", "REVOKE"):
            self.has_to = self.has_to or word == "TO" or self.first == "REVOKE"

    def belongs(self, index: int) -> bool:
        word = self.items[index].word
        before = self.items[index - 1]
        after = self.items[index + 1]
        if self.first == "WITH" and not self.verb:
            return word in _QUERY_VERBS and before.kind == PUNCT and before.text == ")"
        if self.verb == "MERGE":
            return True
        if self.verb:
            return self._in_query(word, before, after)
        rule = getattr(self, f"_in_{self.first.lower()}", None)
        return bool(rule and rule(word, before, after))

    def _in_query(self, word: str, before: Token, after: Token) -> bool:
        if word == "SELECT":
            if before.word in ("UNION", "ALL", "EXCEPT", "INTERSECT"):
                return True
            return self.verb == "INSERT" and not self.has_source
        if word in ("EXEC", "EXECUTE"):
            return self.verb == "INSERT" and not self.has_source
        if word == "SET":
            return self.verb == "UPDATE" and not self.has_set
        if word == "FETCH":
            return before.word in ("ROW", "ROWS")
        if word == "MERGE":
            return after.word == "JOIN" or before.word == "INSERT"
        if word == "UPDATE":
            return (after.kind == PUNCT and after.text == "(") or before.word == "FOR"
        if word == "BULK":
            return before.word == "INSERT"
        return word == "STATISTICS"

    def _in_execute(self, word: str, before: Token, after: Token) -> bool:
        return word == "REVERT" and before.word == "NO"

    _in_exec = _in_execute

    def _in_rights(self, word: str, before: Token, after: Token) -> bool:
        return not self.has_to or before.word == "WITH"

    _in_grant = _in_deny = _in_revoke = _in_rights

    def _in_alter(self, word: str, before: Token, after: Token) -> bool:
        if self.second == "DATABASE":
            return (word == "SET" and not self.has_set) or (word == "ROLLBACK" and before.word == "WITH")
        if word == "SET":
            return before.word in ("DELETE", "UPDATE") or (after.kind == PUNCT and after.text == "(")
        if word in ("UPDATE", "DELETE"):
            return before.word == "ON"
        if word == "ALTER":
            return after.word == "COLUMN"
        if word == "DROP":
            return (
                after.word in ("COLUMN", "CONSTRAINT", "IF", "MEMBER", "PERIOD", "CREDENTIAL")
                or (before.kind == PUNCT and before.text == ",")
                or (before.word in ("ADD",))
            )
        if word == "IF":
            return after.word == "EXISTS"
        if word in ("ENABLE", "DISABLE"):
            return self.second == "TABLE"
        return word == "MERGE"

    def _in_create(self, word: str, before: Token, after: Token) -> bool:
        if word == "SET":
            return before.word in ("DELETE", "UPDATE")
        if word in ("UPDATE", "DELETE"):
            return before.word == "ON"
        return False

    def _in_drop(self, word: str, before: Token, after: Token) -> bool:
        return word == "IF" and after.word == "EXISTS"

    def _in_bulk(self, word: str, before: Token, after: Token) -> bool:
        return word == "INSERT" and before.word == "BULK"

    def _in_declare(self, word: str, before: Token, after: Token) -> bool:
        return word == "SELECT" and before.word == "FOR"


def is_identifier(token: Token) -> bool:
    """Whether a token can stand where a name is expected."""
    return token.kind == QUOTED or (token.kind == WORD and token.word not in RESERVED)
