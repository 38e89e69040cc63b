"""T-SQL expressions and queries to a tree, by recursive descent.

What this grammar does not know is refused: with 102 or 156 as SQL Server does for what is no T-SQL, and with 40000
for what SQL Server would accept and this emulation does not.
"""

from __future__ import annotations

from tsqldev.compile import tree as t
from tsqldev.compile.source_parser import SourceParser
from tsqldev.compile.words import COMPOUND_ASSIGNMENTS, QUERY_HINTS, RESERVED
from tsqldev.errors import unsupported


class Parser(SourceParser):
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
            if kind == "XML" and self.peek(2).value == "PATH":
                self._xml_path(query)
                return
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

    def _xml_path(self, query: t.Query) -> None:
        """FOR XML PATH(''): what joins texts of rows where STRING_AGG is not at hand. Elements are not emulated."""
        self.i += 3
        named = not self.take("(")
        if not named:
            named = self.token.kind not in ("string", "nstring") or self.token.value != ""
            self.i += 1
            if not named:
                self.need(")")
        if named or self.at(","):
            raise unsupported("FOR XML but PATH('')")
        query.xml = True
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
                if token.value not in QUERY_HINTS:
                    raise unsupported(f"query hint {token.text}")
                expecting = False
                if token.value == "MAXRECURSION":
                    limit = self.peek()
                    if limit.kind != "number" or not limit.value.isdigit() or int(limit.value) > 32767:
                        self.fail(limit)
                    self.max_recursion = int(limit.value)
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
            if op.kind == "op" and (op.value == "=" or op.value in COMPOUND_ASSIGNMENTS):
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


def _query(body: t.Select | t.SetOperation | t.Query) -> t.Query:
    return body if isinstance(body, t.Query) else t.Query(body, pos=body.pos)
