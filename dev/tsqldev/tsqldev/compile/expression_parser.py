"""Expressions and conditions to a tree, by recursive descent."""

from __future__ import annotations

from tsqldev.compile import tree as t
from tsqldev.compile.reader import Reader
from tsqldev.compile.words import BEFORE_PARENTHESIS, COMPARISONS, NO_PARENTHESIS_CALLS, RESERVED
from tsqldev.errors import SqlError, unsupported


class ExpressionParser(Reader):
    def query(self) -> t.Query:
        """A query in parentheses or after EXISTS; the parser of queries says how it reads."""
        raise NotImplementedError

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
        if token.kind == "op" and token.value in COMPARISONS:
            self.i += 1
            op = COMPARISONS[token.value]
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
            if self._at_query(listed=True):
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

    def _at_query(self, *, listed: bool = False) -> bool:
        """Whether a query starts here, perhaps behind parentheses; `listed`: as the whole of what a parenthesis holds."""
        ahead = 0
        while self.peek(ahead).value == "(" and self.peek(ahead).kind == "op":
            ahead += 1
        token = self.peek(ahead)
        if token.kind != "word" or token.value not in ("SELECT", "WITH"):
            return False
        # In ((SELECT 1) + 1) the query is an operand of the parenthesis around it.
        for opening in range(self.i + ahead - 1, self.i - listed, -1):
            after = self.tokens[min(self._closing(opening) + 1, len(self.tokens) - 1)]
            if after.value not in (")", "UNION", "EXCEPT", "INTERSECT", "ORDER", "OFFSET", "OPTION", "FOR"):
                return False
            if after.value != ")":
                return True
        return True

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
                        if depth == 0:
                            return False
                elif token.value == ")":
                    depth -= 1
                    if depth == 0:
                        return False
                elif token.value in COMPARISONS and case == 0 and self._plain_depth(i):
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
                    or (before.kind == "word" and before.value not in BEFORE_PARENTHESIS)
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
            elif self.at(".") and self.peek().value in ("VALUE", "QUERY", "EXIST", "NODES", "MODIFY"):
                raise unsupported(f"the XML method {self.peek().value.lower()}()")
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
            if word in NO_PARENTHESIS_CALLS:
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
