"""The statements that change data, to a tree."""

from __future__ import annotations

from tsqldev.compile import tree as t
from tsqldev.compile.parser import Parser
from tsqldev.compile.words import COMPOUND_ASSIGNMENTS
from tsqldev.errors import SqlError, unsupported


class StatementParser(Parser):
    def statement(self) -> t.Statement:
        while self.take(";"):
            pass
        if self.token.kind == "end":
            raise SqlError(102, "Incorrect syntax near ''.", severity=15)
        ctes = self.ctes() if self.at("WITH") else []
        word = self.token.value if self.token.kind == "word" else ""
        found: t.Statement
        if word == "INSERT":
            found = self.insert(ctes)
        elif word == "UPDATE":
            found = self.update(ctes)
        elif word == "DELETE":
            found = self.delete(ctes)
        elif word == "MERGE":
            found = self.merge(ctes)
        elif word == "TRUNCATE" and not ctes:
            found = self.truncate()
        elif word == "SELECT" or self.at("("):
            found = self.query()
            found.ctes = ctes + found.ctes
        else:
            self.fail()
        self.end()
        return found

    def target(self) -> t.TableRef:
        token = self.token
        if token.kind == "variable":
            self.i += 1
            return t.TableRef((token.value,), None, self.hints(), pos=token.pos)
        if self.at("OPENQUERY") or self.at("OPENROWSET"):
            raise unsupported(token.value)
        return t.TableRef(self.dotted(), None, self.hints(), pos=token.pos)

    def outputs(self) -> list[t.Output]:
        found: list[t.Output] = []
        while self.token.kind == "word" and self.token.value == "OUTPUT":
            self.i += 1
            output = t.Output([self.item()])
            while self.take(","):
                output.items.append(self.item())
            if self.take("INTO"):
                if self.token.kind == "variable":
                    output.into = (self.token.value,)
                    self.i += 1
                else:
                    output.into = self.dotted()
                if self.at("("):
                    output.columns = self.column_list()
            found.append(output)
        return found

    def insert(self, ctes: list[t.Cte]) -> t.Insert:
        pos = self.token.pos
        self.need("INSERT")
        top = self.top()
        self.take("INTO")
        target = self.target()
        columns = None
        if self.at("(") and not self._at_query():
            columns = self.insert_columns()
        if self.at("WITH") and self.peek().value == "(":
            target.hints = self.hints()
            if self.at("(") and columns is None and not self._at_query():
                columns = self.insert_columns()
        outputs = self.outputs()
        if self.take("DEFAULT", "VALUES"):
            return t.Insert(target, columns, outputs, None, None, ctes, top, pos=pos)
        if self.at("VALUES"):
            rows = self.value_rows()
            if self.take("OPTION"):
                self.query_hints()
            return t.Insert(target, columns, outputs, rows, None, ctes, top, pos=pos)
        if self.at("EXEC") or self.at("EXECUTE"):
            raise unsupported("INSERT ... EXECUTE")
        return t.Insert(target, columns, outputs, None, self.query(), ctes, top, pos=pos)

    def insert_columns(self) -> list[str]:
        """INSERT takes qualified column names too; only the last part counts."""
        self.need("(")
        names = [self.dotted()[-1]]
        while self.take(","):
            names.append(self.dotted()[-1])
        self.need(")")
        return names

    def assignments(self) -> list[t.Assignment]:
        found: list[t.Assignment] = []
        while True:
            variable: str | None = None
            column: tuple[str, ...] | None = None
            value: t.Node
            token = self.token
            if token.kind == "variable":
                variable = token.value
                self.i += 1
                op = self.token
                if op.value == "=" and self._at_assignment(self.i + 1):
                    self.i += 1
                    column = self.dotted()
                    op = self.token
                    self.i += 1
                    value = self.expression()
                    if op.value != "=":
                        value = t.Binary(op.value[0], t.Name(column, pos=op.pos), value, pos=op.pos)
                else:
                    self.i += 1
                    value = self.expression()
                    if op.value in COMPOUND_ASSIGNMENTS:
                        value = t.Binary(op.value[0], t.Variable(variable, pos=op.pos), value, pos=op.pos)
                    elif op.value != "=":
                        self.fail(op)
            else:
                column = self.dotted()
                op = self.token
                if self.at("("):
                    raise unsupported("UPDATE with .WRITE or a method")
                if op.value != "=" and op.value not in COMPOUND_ASSIGNMENTS:
                    self.fail()
                self.i += 1
                value = self.expression()
                if op.value != "=":
                    value = t.Binary(op.value[0], t.Name(column, pos=op.pos), value, pos=op.pos)
            found.append(t.Assignment(column, variable, value))
            if not self.take(","):
                return found

    def _at_assignment(self, i: int) -> bool:
        """Whether `column =` stands at token i."""
        while self.tokens[i].kind in ("name", "word"):
            after = self.tokens[i + 1]
            if after.kind != "op":
                return False
            if after.value == "=" or after.value in COMPOUND_ASSIGNMENTS:
                return True
            if after.value != ".":
                return False
            i += 2
        return False

    def update(self, ctes: list[t.Cte]) -> t.Update:
        pos = self.token.pos
        self.need("UPDATE")
        if self.at("STATISTICS"):
            self.fail()
        top = self.top()
        target = self.target()
        self.need("SET")
        assignments = self.assignments()
        outputs = self.outputs()
        source = self.sources() if self.take("FROM") else None
        where = self.where()
        return t.Update(target, assignments, outputs, source, where, ctes, top, pos=pos)

    def where(self) -> t.Node | None:
        where = None
        if self.take("WHERE"):
            if self.at("CURRENT", "OF"):
                raise unsupported("WHERE CURRENT OF")
            where = self.condition()
        if self.take("OPTION"):
            self.query_hints()
        return where

    def delete(self, ctes: list[t.Cte]) -> t.Delete:
        pos = self.token.pos
        self.need("DELETE")
        top = self.top()
        self.take("FROM")
        target = self.target()
        outputs = self.outputs()
        source = self.sources() if self.take("FROM") else None
        where = self.where()
        return t.Delete(target, outputs, source, where, ctes, top, pos=pos)

    def merge(self, ctes: list[t.Cte]) -> t.Merge:
        pos = self.token.pos
        self.need("MERGE")
        if self.at("TOP"):
            raise unsupported("MERGE TOP")
        self.take("INTO")
        target = self.target()
        alias, _ = self.alias()
        target.alias = alias
        if not target.hints:
            target.hints = self.hints()
        self.need("USING")
        source = self.sources()
        self.need("ON")
        on = self.condition()
        whens: list[t.When] = []
        while self.take("WHEN"):
            if self.take("NOT"):
                self._word("MATCHED")
                matched = "TARGET"
                if self.take("BY"):
                    if self.token.value not in ("TARGET", "SOURCE"):
                        self.fail()
                    matched = self.token.value
                    self.i += 1
            else:
                self._word("MATCHED")
                matched = "MATCHED"
            condition = self.condition() if self.take("AND") else None
            self.need("THEN")
            if self.take("UPDATE", "SET"):
                whens.append(t.When(matched, condition, "UPDATE", self.assignments()))
            elif self.take("DELETE"):
                whens.append(t.When(matched, condition, "DELETE"))
            elif self.take("INSERT"):
                columns = self.insert_columns() if self.at("(") else None
                if self.take("DEFAULT", "VALUES"):
                    raise unsupported("MERGE ... INSERT DEFAULT VALUES")
                rows = self.value_rows()
                if len(rows) != 1:
                    self.fail()
                whens.append(t.When(matched, condition, "INSERT", columns=columns, values=rows[0]))
            else:
                self.fail()
        if not whens:
            self.fail()
        outputs = self.outputs()
        if self.take("OPTION"):
            self.query_hints()
        return t.Merge(target, source, on, whens, outputs, ctes, pos=pos)

    def _word(self, word: str) -> None:
        if self.token.value != word:
            self.fail()
        self.i += 1

    def truncate(self) -> t.Truncate:
        pos = self.token.pos
        self.need("TRUNCATE", "TABLE")
        target = self.target()
        if self.at("WITH"):
            raise unsupported("TRUNCATE TABLE ... WITH (PARTITIONS)")
        return t.Truncate(target, pos=pos)
