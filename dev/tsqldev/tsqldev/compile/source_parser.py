"""FROM: tables with their hints, derived tables, joins and APPLY, to a tree."""

from __future__ import annotations

from tsqldev.compile import tree as t
from tsqldev.compile.expression_parser import ExpressionParser
from tsqldev.compile.words import TABLE_HINTS
from tsqldev.errors import SqlError, unsupported

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


class SourceParser(ExpressionParser):
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
        if self.at("OPENROWSET") and self.peek().value == "(" and self.peek(2).value == "BULK":
            return self.bulk_file()
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

    def bulk_file(self) -> t.BulkFile:
        pos = self.token.pos
        self.i += 3
        if self.token.kind not in ("string", "nstring"):
            self.fail()
        path = self.token.value
        self.i += 1
        self.need(",")
        kind = self.token.value
        if self.token.kind != "word" or kind not in ("SINGLE_BLOB", "SINGLE_CLOB", "SINGLE_NCLOB"):
            raise unsupported(f"OPENROWSET (BULK ..., {kind})")
        self.i += 1
        self.need(")")
        alias, columns = self.alias()
        if alias is None:
            raise SqlError(
                491, "A correlation name must be specified for the bulk rowset in the from clause.", severity=15
            )
        return t.BulkFile(path, kind, alias, columns, pos=pos)

    def _old_hints(self) -> bool:
        return self.peek().kind == "word" and self.peek().value in TABLE_HINTS and self.peek(2).value in (")", ",")

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
            elif word in TABLE_HINTS and self.token.kind == "word":
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

    def column_list(self) -> list[str]:
        self.need("(")
        names = [self.column_name()]
        while self.take(","):
            names.append(self.column_name())
        self.need(")")
        return names
