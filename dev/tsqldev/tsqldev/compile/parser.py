"""T-SQL expressions and queries to a tree, by recursive descent.

What this grammar does not know is refused: with 102 or 156 as SQL Server does for what is no T-SQL, and with 40000
for what SQL Server would accept and this emulation does not.
"""

from __future__ import annotations

from typing import NoReturn

from tsqldev.compile import tree as t
from tsqldev.compile.tokens import Token, tokens
from tsqldev.errors import SqlError, unsupported

# Words that cannot be a name without brackets (the reserved words that matter to this grammar).
RESERVED = frozenset(
    [
        "ADD",
        "ALL",
        "ALTER",
        "AND",
        "ANY",
        "AS",
        "ASC",
        "AUTHORIZATION",
        "BACKUP",
        "BEGIN",
        "BETWEEN",
        "BREAK",
        "BROWSE",
        "BULK",
        "BY",
        "CASCADE",
        "CASE",
        "CHECK",
        "CHECKPOINT",
        "CLOSE",
        "CLUSTERED",
        "COALESCE",
        "COLLATE",
        "COLUMN",
        "COMMIT",
        "COMPUTE",
        "CONSTRAINT",
        "CONTAINS",
        "CONTINUE",
        "CONVERT",
        "CREATE",
        "CROSS",
        "CURRENT",
        "CURRENT_DATE",
        "CURRENT_TIME",
        "CURRENT_TIMESTAMP",
        "CURRENT_USER",
        "CURSOR",
        "DATABASE",
        "DBCC",
        "DEALLOCATE",
        "DECLARE",
        "DEFAULT",
        "DELETE",
        "DENY",
        "DESC",
        "DISTINCT",
        "DISTRIBUTED",
        "DOUBLE",
        "DROP",
        "ELSE",
        "END",
        "ERRLVL",
        "ESCAPE",
        "EXCEPT",
        "EXEC",
        "EXECUTE",
        "EXISTS",
        "EXIT",
        "EXTERNAL",
        "FETCH",
        "FILE",
        "FILLFACTOR",
        "FOR",
        "FOREIGN",
        "FREETEXT",
        "FROM",
        "FULL",
        "FUNCTION",
        "GOTO",
        "GRANT",
        "GROUP",
        "HAVING",
        "HOLDLOCK",
        "IDENTITY",
        "IDENTITY_INSERT",
        "IF",
        "IN",
        "INDEX",
        "INNER",
        "INSERT",
        "INTERSECT",
        "INTO",
        "IS",
        "JOIN",
        "KEY",
        "KILL",
        "LEFT",
        "LIKE",
        "MERGE",
        "NATIONAL",
        "NOCHECK",
        "NONCLUSTERED",
        "NOT",
        "NULL",
        "NULLIF",
        "OF",
        "OFF",
        "OFFSETS",
        "ON",
        "OPEN",
        "OPENQUERY",
        "OPENROWSET",
        "OPENXML",
        "OPTION",
        "OR",
        "ORDER",
        "OUTER",
        "OVER",
        "PERCENT",
        "PIVOT",
        "PLAN",
        "PRIMARY",
        "PRINT",
        "PROC",
        "PROCEDURE",
        "PUBLIC",
        "RAISERROR",
        "READ",
        "RECONFIGURE",
        "REFERENCES",
        "REPLICATION",
        "RESTORE",
        "RETURN",
        "REVERT",
        "REVOKE",
        "RIGHT",
        "ROLLBACK",
        "ROWCOUNT",
        "ROWGUIDCOL",
        "RULE",
        "SAVE",
        "SCHEMA",
        "SELECT",
        "SESSION_USER",
        "SET",
        "SETUSER",
        "SHUTDOWN",
        "SOME",
        "STATISTICS",
        "SYSTEM_USER",
        "TABLE",
        "TABLESAMPLE",
        "TEXTSIZE",
        "THEN",
        "TO",
        "TOP",
        "TRAN",
        "TRANSACTION",
        "TRIGGER",
        "TRUNCATE",
        "TRY_CONVERT",
        "TSEQUAL",
        "UNION",
        "UNIQUE",
        "UNPIVOT",
        "UPDATE",
        "USE",
        "USER",
        "VALUES",
        "VARYING",
        "VIEW",
        "WAITFOR",
        "WHEN",
        "WHERE",
        "WHILE",
        "WITH",
        "WITHIN",
    ]
)
# Words that start what may follow a table name, and so are no alias.
_NO_PAREN_CALLS = frozenset({"CURRENT_TIMESTAMP", "CURRENT_USER", "SESSION_USER", "SYSTEM_USER", "USER"})
_TABLE_HINTS = frozenset(
    [
        "HOLDLOCK",
        "SERIALIZABLE",
        "REPEATABLEREAD",
        "READCOMMITTED",
        "READCOMMITTEDLOCK",
        "READUNCOMMITTED",
        "NOLOCK",
        "UPDLOCK",
        "XLOCK",
        "ROWLOCK",
        "PAGLOCK",
        "TABLOCK",
        "TABLOCKX",
        "NOWAIT",
        "READPAST",
        "SNAPSHOT",
        "NOEXPAND",
        "FORCESEEK",
        "FORCESCAN",
        "KEEPIDENTITY",
        "KEEPDEFAULTS",
        "IGNORE_CONSTRAINTS",
        "IGNORE_TRIGGERS",
    ]
)
# Query hints that change no result.
_QUERY_HINTS = frozenset(
    {
        "RECOMPILE",
        "MAXDOP",
        "MAXRECURSION",
        "OPTIMIZE",
        "HASH",
        "LOOP",
        "MERGE",
        "FORCE",
        "ORDER",
        "FAST",
        "LABEL",
        "USE",
        "KEEP",
        "KEEPFIXED",
        "CONCAT",
        "QUERYTRACEON",
    }
)
_COMPARISONS = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "!<": ">=", "!>": "<="}
_COMPOUND = frozenset({"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="})


class Parser:
    def __init__(self, text: str, *, quoted_identifier: bool = True) -> None:
        self.text = text
        self.tokens = tokens(text, quoted_identifier=quoted_identifier)
        self.i = 0

    # ---- tokens --------------------------------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        return self.tokens[self.i]

    def peek(self, ahead: int = 1) -> Token:
        return self.tokens[min(self.i + ahead, len(self.tokens) - 1)]

    def line(self, pos: int) -> int:
        return self.text.count("\n", 0, pos) + 1

    def error(self, token: Token | None = None) -> SqlError:
        token = token or self.token
        line = self.line(token.pos)
        if token.kind == "word" and token.value in RESERVED:
            return SqlError(156, f"Incorrect syntax near the keyword '{token.text}'.", severity=15, line=line)
        near = token.text if token.kind != "end" else (self.tokens[self.i - 1].text if self.i else "")
        near = near[1:-1] if token.kind in ("string", "name") and len(near) > 1 else near
        return SqlError(102, f"Incorrect syntax near '{near}'.", severity=15, line=line)

    def fail(self, token: Token | None = None) -> NoReturn:
        raise self.error(token)

    def at(self, *words: str) -> bool:
        """Whether the next tokens are these words or operators."""
        for ahead, word in enumerate(words):
            token = self.peek(ahead)
            if token.kind not in ("word", "op") or token.value != word:
                return False
        return True

    def take(self, *words: str) -> bool:
        if self.at(*words):
            self.i += len(words)
            return True
        return False

    def need(self, *words: str) -> None:
        for word in words:
            if not self.take(word):
                self.fail()

    def end(self) -> None:
        while self.take(";"):
            pass
        if self.token.kind != "end":
            self.fail()

    # ---- names ---------------------------------------------------------------------------------------------------

    def at_name(self) -> bool:
        token = self.token
        return token.kind == "name" or (token.kind == "word" and token.value not in RESERVED)

    def name(self) -> str:
        if not self.at_name():
            self.fail()
        self.i += 1
        token = self.tokens[self.i - 1]
        return token.value if token.kind == "name" else token.text

    def column_name(self) -> str:
        """A name after a dot or in a list; `$action`, `$identity` and reserved words are none."""
        return self.name()

    def dotted(self) -> tuple[str, ...]:
        """A name of up to four parts; an omitted middle part is empty."""
        parts = [self.name()]
        while self.at("."):
            self.i += 1
            if self.at("."):
                parts.append("")
                continue
            parts.append(self.name())
        if len(parts) > 4:
            raise SqlError(
                117,
                f"The object name '{'.'.join(parts)}' contains more than the maximum number of prefixes. The maximum is 3.",
                severity=15,
                line=self.line(self.token.pos),
            )
        return tuple(parts)

    # ---- expressions ---------------------------------------------------------------------------------------------

    def condition(self) -> t.Node:
        left = self.conjunction()
        while self.at("OR"):
            pos = self.token.pos
            self.i += 1
            left = t.Logic("OR", left, self.conjunction(), pos=pos)
        return left

    def conjunction(self) -> t.Node:
        left = self.negation()
        while self.at("AND"):
            pos = self.token.pos
            self.i += 1
            left = t.Logic("AND", left, self.negation(), pos=pos)
        return left

    def negation(self) -> t.Node:
        if self.at("NOT"):
            pos = self.token.pos
            self.i += 1
            return t.Not(self.negation(), pos=pos)
        return self.predicate()

    def predicate(self) -> t.Node:
        pos = self.token.pos
        if self.at("EXISTS"):
            self.i += 1
            self.need("(")
            query = self.query()
            self.need(")")
            return t.Exists(query, pos=pos)
        if self.at("(") and self._is_condition():
            self.i += 1
            inner = self.condition()
            self.need(")")
            return t.Parenthesis(inner, pos=pos)
        if self.at("UPDATE", "("):
            self.i += 2
            column = self.name()
            self.need(")")
            return t.Call("UPDATE", [t.Name((column,), pos=pos)], pos=pos)
        left = self.expression()
        return self.predicate_tail(left, pos)

    def predicate_tail(self, left: t.Node, pos: int) -> t.Node:
        token = self.token
        if token.kind == "op" and token.value in _COMPARISONS:
            self.i += 1
            op = _COMPARISONS[token.value]
            if self.token.kind == "word" and self.token.value in ("ANY", "SOME", "ALL") and self.peek().value == "(":
                quantifier = "ALL" if self.token.value == "ALL" else "ANY"
                self.i += 2
                query = self.query()
                self.need(")")
                return t.Quantified(op, left, quantifier, query, pos=pos)
            return t.Compare(op, left, self.expression(), pos=pos)
        if self.at("IS"):
            self.i += 1
            negated = self.take("NOT")
            if self.take("DISTINCT", "FROM"):
                op = "is not distinct from" if negated else "is distinct from"
                return t.Compare(op, left, self.expression(), pos=pos)
            self.need("NULL")
            return t.IsNull(left, negated, pos=pos)
        negated = False
        if self.at("NOT") and self.peek().value in ("IN", "LIKE", "BETWEEN"):
            self.i += 1
            negated = True
        if self.take("BETWEEN"):
            low = self.expression()
            self.need("AND")
            return t.Between(left, low, self.expression(), negated, pos=pos)
        if self.take("LIKE"):
            pattern = self.expression()
            escape = self.expression() if self.take("ESCAPE") else None
            if self.take("{"):
                if self.token.value != "ESCAPE":
                    self.fail()
                self.i += 1
                escape = self.expression()
                self.need("}")
            return t.Like(left, pattern, escape, negated, pos=pos)
        if self.take("IN"):
            self.need("(")
            if self._at_query():
                query = self.query()
                self.need(")")
                return t.InQuery(left, query, negated, pos=pos)
            items = [self.expression()]
            while self.take(","):
                items.append(self.expression())
            self.need(")")
            return t.InList(left, items, negated, pos=pos)
        raise SqlError(
            4145,
            "An expression of non-boolean type specified in a context where a condition is expected, near "
            f"'{self.token.text or self.tokens[self.i - 1].text}'.",
            severity=15,
            line=self.line(pos),
        )

    def _at_query(self) -> bool:
        """Whether a query starts here, perhaps behind parentheses."""
        ahead = 0
        while self.peek(ahead).value == "(" and self.peek(ahead).kind == "op":
            ahead += 1
        token = self.peek(ahead)
        return token.kind == "word" and token.value in ("SELECT", "WITH")

    def _is_condition(self) -> bool:
        """Whether the parenthesis that opens here holds a condition rather than a value or a query.

        Decided by the first thing at its own depth that only a condition has.
        """
        i, depth, case = self.i, 0, 0
        while True:
            token = self.tokens[i]
            if token.kind == "end":
                return False
            if token.kind == "op":
                if token.value == "(":
                    depth += 1
                    following = self.tokens[i + 1]
                    if following.kind == "word" and following.value in ("SELECT", "WITH"):
                        i = self._closing(i)
                        depth -= 1
                elif token.value == ")":
                    depth -= 1
                    if depth == 0:
                        return False
                elif token.value in _COMPARISONS and case == 0 and self._plain_depth(i):
                    return True
            elif token.kind == "word":
                if token.value == "CASE":
                    case += 1
                elif token.value == "END":
                    case -= 1
                elif (
                    case == 0
                    and token.value in ("AND", "OR", "NOT", "LIKE", "BETWEEN", "IN", "IS", "EXISTS", "UPDATE")
                    and self._plain_depth(i)
                ):
                    return True
            i += 1

    def _closing(self, i: int) -> int:
        depth = 0
        while True:
            token = self.tokens[i]
            if token.kind == "op" and token.value == "(":
                depth += 1
            elif token.kind == "op" and token.value == ")":
                depth -= 1
                if depth == 0:
                    return i
            elif token.kind == "end":
                return i
            i += 1

    def _plain_depth(self, position: int) -> bool:
        """Whether every parenthesis open between here and `position` is a bare one, no call's argument list."""
        stack: list[bool] = []
        for i in range(self.i, position):
            token = self.tokens[i]
            if token.kind != "op":
                continue
            if token.value == "(":
                before = self.tokens[i - 1] if i else None
                called = before is not None and (
                    before.kind in ("name", "variable")
                    or (before.kind == "word" and before.value not in _BEFORE_PARENTHESIS)
                )
                stack.append(not called or i == self.i)
            elif token.value == ")" and stack:
                stack.pop()
        return all(stack)

    def expression(self) -> t.Node:
        """Additive level, where SQL Server also puts & ^ |."""
        left = self.term()
        while self.token.kind == "op" and self.token.value in ("+", "-", "&", "|", "^"):
            token = self.token
            self.i += 1
            left = t.Binary(token.value, left, self.term(), pos=token.pos)
        return left

    def term(self) -> t.Node:
        left = self.factor()
        while self.token.kind == "op" and self.token.value in ("*", "/", "%"):
            token = self.token
            self.i += 1
            left = t.Binary(token.value, left, self.factor(), pos=token.pos)
        return left

    def factor(self) -> t.Node:
        token = self.token
        if token.kind == "op" and token.value in ("-", "+", "~"):
            self.i += 1
            return t.Unary(token.value, self.factor(), pos=token.pos)
        return self.postfix(self.primary())

    def postfix(self, node: t.Node) -> t.Node:
        while True:
            if self.at("COLLATE"):
                pos = self.token.pos
                self.i += 1
                node = t.Collate(node, self.name(), pos=pos)
            elif self.at("AT") and self.peek().value == "TIME" and self.peek(2).value == "ZONE":
                pos = self.token.pos
                self.i += 3
                node = t.AtTimeZone(node, self.postfix(self.primary()), pos=pos)
            else:
                return node

    def primary(self) -> t.Node:
        token = self.token
        pos = token.pos
        kind = token.kind
        if kind in ("string", "nstring", "binary", "money"):
            self.i += 1
            return t.Literal(kind, token.value, pos=pos)
        if kind == "number":
            self.i += 1
            text = token.value
            shape = "float" if "e" in text.lower() else "decimal" if "." in text else "int"
            return t.Literal(shape, text, pos=pos)
        if kind == "variable":
            self.i += 1
            return t.Variable(token.value, pos=pos)
        if kind == "op":
            if token.value == "(":
                if self._at_query():
                    start = self.i
                    self.i += 1
                    query = self.query()
                    self.need(")")
                    if start + 1 < len(self.tokens):
                        return t.Subquery(query, pos=pos)
                self.i += 1
                inner = self.expression()
                self.need(")")
                return t.Parenthesis(inner, pos=pos)
            if token.value == "{" and self.peek().value == "FN":
                self.i += 2
                node = self.primary()
                self.need("}")
                return node
            if token.value == "{" and self.peek().value in ("D", "T", "TS", "GUID"):
                self.i += 2
                node = self.primary()
                self.need("}")
                return node
            self.fail()
        if kind == "word":
            word = token.value
            if word == "NULL":
                self.i += 1
                return t.Literal("null", "NULL", pos=pos)
            if word == "CASE":
                return self.case()
            if word in ("CAST", "TRY_CAST") and self.peek().value == "(":
                self.i += 2
                operand = self.expression()
                self.need("AS")
                type_name = self.type_name()
                self.need(")")
                return t.Cast(operand, type_name, word == "TRY_CAST", False, None, pos=pos)
            if word in ("CONVERT", "TRY_CONVERT") and self.peek().value == "(":
                self.i += 2
                type_name = self.type_name()
                self.need(",")
                operand = self.expression()
                style = self.expression() if self.take(",") else None
                self.need(")")
                return t.Cast(operand, type_name, word == "TRY_CONVERT", True, style, pos=pos)
            if word in _NO_PAREN_CALLS:
                self.i += 1
                if self.take("("):
                    self.need(")")
                return t.Call(token.text, [], pos=pos)
            if word == "$ACTION":
                self.i += 1
                return t.Call("$ACTION", [], pos=pos)
            if word == "DEFAULT":
                self.i += 1
                return t.Literal("default", "DEFAULT", pos=pos)
            if word == "IIF" and self.peek().value == "(":
                self.i += 2
                condition = self.condition()
                self.need(",")
                first = self.expression()
                self.need(",")
                second = self.expression()
                self.need(")")
                return t.Case(None, [(condition, first)], second, pos=pos)
            if word == "NEXT" and self.peek().value == "VALUE":
                raise unsupported("NEXT VALUE FOR")
            if (
                self.peek().kind == "op"
                and self.peek().value == "("
                and (word not in RESERVED or word in ("LEFT", "RIGHT", "COALESCE", "NULLIF", "CONTAINS", "FREETEXT"))
            ):
                self.i += 1
                return self.call(token.text, (), pos)
        if self.at_name():
            parts = [self.name()]
            while self.at("."):
                self.i += 1
                if self.at("*"):
                    self.fail()
                parts.append("" if self.at(".") else self.name())
            if self.at("("):
                if len(parts) > 1 and parts[-1].lower() in ("value", "query", "exist", "nodes", "modify"):
                    raise unsupported(f"XML method .{parts[-1]}()")
                return self.call(parts[-1], tuple(parts[:-1]), pos)
            return t.Name(tuple(parts), pos=pos)
        raise self.error()

    def case(self) -> t.Node:
        pos = self.token.pos
        self.need("CASE")
        operand = None if self.at("WHEN") else self.expression()
        whens: list[tuple[t.Node, t.Node]] = []
        while self.take("WHEN"):
            test = self.condition() if operand is None else self.expression()
            self.need("THEN")
            whens.append((test, self.expression()))
        if not whens:
            self.fail()
        otherwise = self.expression() if self.take("ELSE") else None
        self.need("END")
        return t.Case(operand, whens, otherwise, pos=pos)

    def call(self, name: str, schema: tuple[str, ...], pos: int) -> t.Node:
        node = t.Call(name, [], schema, pos=pos)
        self.need("(")
        upper = name.upper()
        if self.take("*"):
            node.star = True
        elif not self.at(")"):
            if self.take("DISTINCT"):
                node.distinct = True
            else:
                self.take("ALL")
            if upper == "TRIM" and self.token.value in ("LEADING", "TRAILING", "BOTH") and self.peek().value != ",":
                raise unsupported("TRIM with LEADING, TRAILING or BOTH")
            node.arguments.append(self.expression())
            if upper == "TRIM" and self.take("FROM"):
                node.arguments.append(self.expression())
            while self.take(","):
                node.arguments.append(self.expression())
            if upper == "JSON_OBJECT" or self.at(":"):
                self.fail()
        self.need(")")
        if self.at("IGNORE", "NULLS") or self.at("RESPECT", "NULLS"):
            raise unsupported(f"{self.token.value} NULLS")
        if self.at("WITHIN", "GROUP"):
            self.i += 2
            self.need("(", "ORDER", "BY")
            node.within = self.order_items()
            self.need(")")
        if self.at("OVER"):
            self.i += 1
            node.over = self.window()
        return node

    def window(self) -> t.Window:
        pos = self.token.pos
        if not self.at("("):
            raise unsupported("named window")
        self.need("(")
        partition: list[t.Node] = []
        order: list[t.OrderItem] = []
        frame = ""
        if self.take("PARTITION", "BY"):
            partition.append(self.expression())
            while self.take(","):
                partition.append(self.expression())
        if self.take("ORDER", "BY"):
            order = self.order_items()
        if self.token.value in ("ROWS", "RANGE"):
            unit = self.token.value
            self.i += 1
            if self.take("BETWEEN"):
                low = self.bound()
                self.need("AND")
                frame = f"{unit} BETWEEN {low} AND {self.bound()}"
            else:
                frame = f"{unit} {self.bound()}"
        self.need(")")
        return t.Window(partition, order, frame, pos=pos)

    def bound(self) -> str:
        if self.take("CURRENT"):
            self.need("ROW")
            return "CURRENT ROW"
        if self.take("UNBOUNDED"):
            extent = "UNBOUNDED"
        elif self.token.kind == "number" and self.token.value.isdigit():
            extent = self.token.value
            self.i += 1
        else:
            self.fail()
        for side in ("PRECEDING", "FOLLOWING"):
            if self.take(side):
                return f"{extent} {side}"
        raise self.error()

    def type_name(self) -> t.TypeName:
        pos = self.token.pos
        words: list[str]
        if self.take("NATIONAL"):
            words = ["n" + self.name()]
            if self.take("VARYING"):
                words = ["nvarchar"]
        elif self.take("DOUBLE"):
            if self.token.value != "PRECISION":
                self.fail()
            self.i += 1
            words = ["float"]
        else:
            words = list(self.dotted())
            if self.take("VARYING"):
                words[-1] = {"char": "varchar", "character": "varchar", "binary": "varbinary"}.get(
                    words[-1].lower(), words[-1]
                )
        arguments: list[str] = []
        if self.take("("):
            while True:
                if self.token.kind not in ("number", "word"):
                    self.fail()
                arguments.append(self.token.value)
                self.i += 1
                if not self.take(","):
                    break
            self.need(")")
        return t.TypeName(tuple(words), tuple(arguments), pos=pos)

    def order_items(self) -> list[t.OrderItem]:
        items: list[t.OrderItem] = []
        while True:
            expression = self.expression()
            descending = self.take("DESC")
            if not descending:
                self.take("ASC")
            items.append(t.OrderItem(expression, descending))
            if not self.take(","):
                return items

    # ---- queries -------------------------------------------------------------------------------------------------

    def ctes(self) -> list[t.Cte]:
        found: list[t.Cte] = []
        if not self.take("WITH"):
            return found
        if self.at("XMLNAMESPACES"):
            raise unsupported("WITH XMLNAMESPACES")
        while True:
            name = self.name()
            columns = self.column_list() if self.at("(") else []
            self.need("AS", "(")
            query = self.query()
            self.need(")")
            found.append(t.Cte(name, columns, query))
            if not self.take(","):
                return found

    def column_list(self) -> list[str]:
        self.need("(")
        names = [self.column_name()]
        while self.take(","):
            names.append(self.column_name())
        self.need(")")
        return names

    def query(self) -> t.Query:
        pos = self.token.pos
        ctes = self.ctes()
        body = self.query_terms()
        query = t.Query(body, ctes, pos=pos)
        self.query_tail(query)
        return query

    def query_tail(self, query: t.Query) -> None:
        if self.take("ORDER", "BY"):
            query.order = self.order_items()
            if self.token.value == "OFFSET" and self.token.kind == "word":
                self.i += 1
                query.offset = self.expression()
                if self.token.value not in ("ROW", "ROWS"):
                    self.fail()
                self.i += 1
                if self.take("FETCH"):
                    if self.token.value not in ("FIRST", "NEXT"):
                        self.fail()
                    self.i += 1
                    query.fetch = self.expression()
                    if self.token.value not in ("ROW", "ROWS"):
                        self.fail()
                    self.i += 1
                    if self.token.value != "ONLY":
                        self.fail()
                    self.i += 1
        if self.at("FOR") and self.peek().value in ("XML", "JSON", "BROWSE"):
            kind = self.peek().value
            if kind != "JSON":
                raise unsupported(f"FOR {kind}")
            self.i += 2
            words = [self.token.value]
            self.i += 1
            if words[0] not in ("PATH", "AUTO"):
                self.fail()
            while self.take(","):
                words.append(self.token.value)
                self.i += 1
                if self.take("("):
                    raise unsupported("FOR JSON ROOT")
            query.json = tuple(words)
        if self.take("OPTION"):
            self.query_hints()

    def query_hints(self) -> None:
        self.need("(")
        depth = 1
        expecting = True
        while depth:
            token = self.token
            if token.kind == "end":
                self.fail()
            if token.value == "(" and token.kind == "op":
                depth += 1
            elif token.value == ")" and token.kind == "op":
                depth -= 1
            elif token.value == "," and depth == 1:
                expecting = True
                self.i += 1
                continue
            elif expecting and depth == 1:
                if token.value not in _QUERY_HINTS:
                    raise unsupported(f"query hint {token.text}")
                expecting = False
            self.i += 1

    def query_terms(self) -> t.Select | t.SetOperation | t.Query:
        left = self.query_intersections()
        while self.token.kind == "word" and self.token.value in ("UNION", "EXCEPT"):
            op, pos = self.token.value, self.token.pos
            self.i += 1
            every = self.take("ALL") if op == "UNION" else False
            right = self.query_intersections()
            left = t.SetOperation(op, every, _query(left), _query(right), pos=pos)
        return left

    def query_intersections(self) -> t.Select | t.SetOperation | t.Query:
        left = self.query_primary()
        while self.at("INTERSECT"):
            pos = self.token.pos
            self.i += 1
            left = t.SetOperation("INTERSECT", False, _query(left), _query(self.query_primary()), pos=pos)
        return left

    def query_primary(self) -> t.Select | t.SetOperation | t.Query:
        if self.take("("):
            query = self.query()
            self.need(")")
            return query
        return self.select()

    def top(self) -> t.Top | None:
        if not self.take("TOP"):
            return None
        if self.take("("):
            count = self.expression()
            self.need(")")
        else:
            count = self.primary()
        percent = self.take("PERCENT")
        ties = self.take("WITH", "TIES")
        return t.Top(count, percent, ties)

    def select(self) -> t.Select:
        pos = self.token.pos
        self.need("SELECT")
        distinct = self.take("DISTINCT")
        if not distinct:
            self.take("ALL")
        top = self.top()
        select = t.Select([self.item()], distinct, top, pos=pos)
        while self.take(","):
            select.items.append(self.item())
        if self.take("INTO"):
            select.into = self.dotted()
        if self.take("FROM"):
            select.source = self.sources()
        if self.take("WHERE"):
            select.where = self.condition()
        if self.take("GROUP", "BY"):
            select.group = self.grouping()
        if self.take("HAVING"):
            select.having = self.condition()
        if self.at("WINDOW"):
            raise unsupported("WINDOW clause")
        return select

    def grouping(self) -> list[list[t.Node]]:
        if self.token.value in ("ROLLUP", "CUBE", "GROUPING"):
            raise unsupported(f"GROUP BY {self.token.value}")
        items = [self.expression()]
        while self.take(","):
            items.append(self.expression())
        if self.at("WITH", "ROLLUP") or self.at("WITH", "CUBE"):
            raise unsupported(f"GROUP BY ... WITH {self.peek().value}")
        return [items]

    def item(self) -> t.Item:
        token = self.token
        if token.kind == "op" and token.value == "*":
            self.i += 1
            return t.Item(t.Star((), pos=token.pos))
        if token.kind == "variable" and not token.value.startswith("@@"):
            op = self.peek()
            if op.kind == "op" and (op.value == "=" or op.value in _COMPOUND):
                self.i += 2
                value = self.expression()
                if op.value != "=":
                    value = t.Binary(op.value[0], t.Variable(token.value, pos=token.pos), value, pos=token.pos)
                return t.Item(value, variable=token.value)
        if (self.at_name() or token.kind in ("string",)) and self.peek().kind == "op" and self.peek().value == "=":
            self.i += 2
            return t.Item(self.expression(), alias=token.value if token.kind != "word" else token.text)
        if self.at_name():
            star = self._qualified_star()
            if star is not None:
                return t.Item(star)
        expression = self.expression()
        alias: str | None = None
        if self.take("AS"):
            if self.token.kind in ("string", "nstring"):
                alias = self.token.value
                self.i += 1
            else:
                alias = self.name()
        elif self.token.kind in ("string", "nstring"):
            alias = self.token.value
            self.i += 1
        elif self.at_name() and not self._starts_clause():
            alias = self.name()
        return t.Item(expression, alias=alias)

    def _starts_clause(self) -> bool:
        return self.token.kind == "word" and self.token.value in ("WINDOW", "OUTPUT") and self.peek().kind != "op"

    def _qualified_star(self) -> t.Star | None:
        i = self.i
        parts: list[str] = []
        while self.tokens[i].kind == "name" or (self.tokens[i].kind == "word" and self.tokens[i].value not in RESERVED):
            parts.append(self.tokens[i].value if self.tokens[i].kind == "name" else self.tokens[i].text)
            if self.tokens[i + 1].value != "." or self.tokens[i + 1].kind != "op":
                return None
            i += 2
        if parts and self.tokens[i].kind == "op" and self.tokens[i].value == "*":
            pos = self.token.pos
            self.i = i + 1
            return t.Star(tuple(parts), pos=pos)
        return None

    # ---- sources -------------------------------------------------------------------------------------------------

    def sources(self) -> t.Source:
        left = self.joined()
        while self.take(","):
            left = t.Join("CROSS", left, self.joined(), None)
        return left

    def joined(self) -> t.Source:
        left = self.source()
        while True:
            pos = self.token.pos
            if self.take("CROSS", "JOIN"):
                left = t.Join("CROSS", left, self.source(), None, pos=pos)
                continue
            if self.take("CROSS", "APPLY"):
                left = t.Join("CROSS APPLY", left, self.source(), None, pos=pos)
                continue
            if self.take("OUTER", "APPLY"):
                left = t.Join("OUTER APPLY", left, self.source(), None, pos=pos)
                continue
            kind = ""
            ahead = 0
            if self.at("JOIN"):
                kind = "INNER"
            elif self.token.kind == "word" and self.token.value in ("INNER", "LEFT", "RIGHT", "FULL"):
                kind = self.token.value
                ahead = 1
                if self.peek().value == "OUTER":
                    ahead = 2
                if self.peek(ahead).value in ("HASH", "LOOP", "MERGE", "REMOTE"):
                    ahead += 1
                if self.peek(ahead).value != "JOIN":
                    self.i += ahead
                    self.fail()
            else:
                if self.at("PIVOT") or self.at("UNPIVOT"):
                    raise unsupported(self.token.value)
                return left
            self.i += ahead + 1
            right = self.joined_operand()
            self.need("ON")
            left = t.Join(kind, left, right, self.condition(), pos=pos)

    def joined_operand(self) -> t.Source:
        """`a JOIN b JOIN c ON .. ON ..` nests to the right: a join without its ON yet takes what follows."""
        right = self.source()
        while not self.at("ON"):
            before = self.i
            right = self._nested(right)
            if self.i == before:
                break
        return right

    def _nested(self, left: t.Source) -> t.Source:
        pos = self.token.pos
        for words, kind in _APPLIES:
            if self.take(*words):
                return t.Join(kind, left, self.source(), None, pos=pos)
        for words, kind in _JOINS:
            if self.take(*words):
                right = self.joined_operand()
                self.need("ON")
                return t.Join(kind, left, right, self.condition(), pos=pos)
        return left

    def source(self) -> t.Source:
        token = self.token
        if self.at("("):
            if self._at_query():
                self.i += 1
                query = self.query()
                self.need(")")
                alias, columns = self.alias()
                if alias is None:
                    self.fail()
                return t.Derived(query, alias, columns, pos=token.pos)
            if self.peek().value == "VALUES":
                self.i += 1
                rows = self.value_rows()
                self.need(")")
                alias, columns = self.alias()
                if alias is None:
                    self.fail()
                return t.Rows(rows, alias, columns, pos=token.pos)
            self.i += 1
            inner = self.sources()
            self.need(")")
            return inner
        if token.kind == "variable":
            self.i += 1
            if self.at("."):
                raise unsupported("XML nodes()")
            alias, _ = self.alias()
            return t.TableRef((token.value,), alias, self.hints(), pos=token.pos)
        if self.at("OPENROWSET") or self.at("OPENQUERY") or self.at("OPENXML"):
            raise unsupported(token.value)
        parts = self.dotted()
        if self.at("("):
            if len(parts) == 1 and self._old_hints():
                pass
            else:
                return self.table_call(parts, token.pos)
        if self.at("FOR") and self.peek().value in ("SYSTEM_TIME", "PATH"):
            raise unsupported("FOR SYSTEM_TIME")
        alias, _ = self.alias()
        if self.at("TABLESAMPLE"):
            raise unsupported("TABLESAMPLE")
        return t.TableRef(parts, alias, self.hints(), pos=token.pos)

    def _old_hints(self) -> bool:
        return self.peek().kind == "word" and self.peek().value in _TABLE_HINTS and self.peek(2).value in (")", ",")

    def table_call(self, parts: tuple[str, ...], pos: int) -> t.Source:
        self.need("(")
        arguments: list[t.Node] = []
        if not self.at(")"):
            arguments.append(self.expression())
            while self.take(","):
                arguments.append(self.expression())
        self.need(")")
        schema: list[tuple[str, t.TypeName, str | None, bool]] | None = None
        if parts[-1].upper() == "OPENJSON" and self.at("WITH") and self.peek().value == "(":
            self.i += 2
            schema = []
            while True:
                name = self.name()
                type_name = self.type_name()
                path: str | None = None
                if self.token.kind in ("string", "nstring"):
                    path = self.token.value
                    self.i += 1
                json = False
                if self.take("AS"):
                    if self.token.value != "JSON":
                        self.fail()
                    self.i += 1
                    json = True
                schema.append((name, type_name, path, json))
                if not self.take(","):
                    break
            self.need(")")
        alias, columns = self.alias()
        return t.TableCall(".".join(parts), arguments, alias, columns, schema, pos=pos)

    def alias(self) -> tuple[str | None, list[str]]:
        alias: str | None = None
        if self.take("AS") or (
            self.at_name()
            and not (self.token.kind == "word" and self.token.value in ("OUTPUT", "USING", "WINDOW", "OFFSET"))
        ):
            alias = self.name()
        columns = self.column_list() if alias is not None and self.at("(") and not self._old_hints() else []
        return alias, columns

    def hints(self) -> frozenset[str]:
        if self.at("WITH") and self.peek().value == "(":
            self.i += 1
        elif not (self.at("(") and self._old_hints()):
            return frozenset()
        self.need("(")
        found: set[str] = set()
        while True:
            word = self.token.value
            if word == "INDEX":
                self.i += 1
                if self.take("("):
                    while not self.take(")"):
                        self.i += 1
                        if self.token.kind == "end":
                            self.fail()
                else:
                    self.need("=")
                    self.i += 1
            elif word in _TABLE_HINTS and self.token.kind == "word":
                found.add(word)
                self.i += 1
                if word == "FORCESEEK" and self.take("("):
                    raise unsupported("hint FORCESEEK (index)")
            else:
                raise SqlError(
                    321,
                    f'"{self.token.text}" is not a recognized table hints option. If it is intended as a parameter to '
                    "a table-valued function or to the CHANGETABLE function, ensure that your database compatibility "
                    "mode is set to 90.",
                    severity=15,
                    line=self.line(self.token.pos),
                )
            if not self.take(",") and self.at(")"):
                break
        self.need(")")
        refused = found & {
            "READPAST",
            "SNAPSHOT",
            "IGNORE_CONSTRAINTS",
            "IGNORE_TRIGGERS",
            "KEEPIDENTITY",
            "KEEPDEFAULTS",
        }
        if refused:
            raise unsupported(f"table hint {min(refused)}")
        return frozenset(found)

    def value_rows(self) -> list[list[t.Node]]:
        self.need("VALUES")
        rows: list[list[t.Node]] = []
        while True:
            self.need("(")
            row = [self.expression()]
            while self.take(","):
                row.append(self.expression())
            self.need(")")
            rows.append(row)
            if not self.take(","):
                return rows


_APPLIES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("CROSS", "JOIN"), "CROSS"),
    (("CROSS", "APPLY"), "CROSS APPLY"),
    (("OUTER", "APPLY"), "OUTER APPLY"),
)
_JOINS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("JOIN",), "INNER"),
    *(((kind, "JOIN"), kind) for kind in ("INNER", "LEFT", "RIGHT", "FULL")),
    *(((kind, "OUTER", "JOIN"), kind) for kind in ("LEFT", "RIGHT", "FULL")),
)
# After these words an opening parenthesis does not make a call.
_BEFORE_PARENTHESIS = RESERVED - {"LEFT", "RIGHT", "COALESCE", "NULLIF", "CONVERT", "TRY_CONVERT", "UPDATE"}


def _query(body: t.Select | t.SetOperation | t.Query) -> t.Query:
    return body if isinstance(body, t.Query) else t.Query(body, pos=body.pos)
