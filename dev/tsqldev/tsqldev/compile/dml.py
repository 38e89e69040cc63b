"""INSERT, UPDATE, DELETE, MERGE and TRUNCATE."""

from __future__ import annotations

from collections.abc import Sequence

from tsqldev.compile import tree as t
from tsqldev.compile.capture import Capture
from tsqldev.compile.convert import IMPLICIT, Destination, Value, convert
from tsqldev.compile.expressions import Expressions
from tsqldev.compile.locking import WHOLE, computed, narrow, read_lock
from tsqldev.compile.queries import Queries
from tsqldev.compile.scope import Bound, Scope
from tsqldev.compile.sources import Sources
from tsqldev.compile.targets import Target, find_target
from tsqldev.compile.unit import Unit, is_base
from tsqldev.errors import SqlError, unsupported
from tsqldev.interfaces import Column, Compiled, TableInfo, ViewInfo
from tsqldev.types import CHARACTER

_IN_SET = "An aggregate may not appear in the set list of an UPDATE statement."


class Changes:
    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.queries = Queries(unit)

    def compile(self, node: t.Insert | t.Update | t.Delete | t.Merge | t.Truncate) -> Compiled:
        if isinstance(node, t.Truncate):
            return self._truncate(node)
        saved = self.unit.ctes
        prefix = self.queries.with_clause(node.ctes, None)
        try:
            if isinstance(node, t.Insert):
                capture = self._insert(node)
            elif isinstance(node, t.Update):
                capture = self._update(node)
            elif isinstance(node, t.Delete):
                capture = self._delete(node)
            else:
                capture = self._merge(node)
        finally:
            self.unit.ctes = saved
        return capture.finish(prefix)

    # ---- common --------------------------------------------------------------------------------------------------

    def table(self, target: t.TableRef) -> TableInfo:
        line = self.unit.line(target.pos)
        info = self.unit.resolve(target.parts, line)
        if isinstance(info, ViewInfo):
            raise unsupported(f"changing data through the view {info.schema}.{info.name}")
        if info.system:
            raise SqlError(259, "Ad hoc updates to system catalogs are not allowed.", line=line)
        return info

    def _column(self, info: TableInfo, name: str, line: int) -> int:
        wanted = name.casefold()
        for i, column in enumerate(info.columns):
            if column.name.casefold() == wanted:
                return i
        raise SqlError(207, f"Invalid column name '{name}'.", line=line)

    def assigned(self, info: TableInfo, index: int, value: Value, line: int) -> str:
        """The text that stores a value into a column."""
        column = info.columns[index]
        if column.type.name == "rowversion":
            raise SqlError(
                273,
                "Cannot insert an explicit value into a timestamp column. Use INSERT with a column list to exclude the "
                "timestamp column, or insert a DEFAULT into the timestamp column.",
                line=line,
            )
        table = info.name if not info.database else f"{info.database}.{info.schema}.{info.name}"
        try:
            return convert(value, column.type, destination=Destination(table, column.name)).sql
        except SqlError as error:
            error.line = line
            raise

    def _assign(self, expressions: Expressions, info: TableInfo, index: int, node: t.Node) -> str:
        if isinstance(node, t.Literal) and node.kind == "default":
            return "DEFAULT"
        return self.assigned(info, index, expressions.value(node), self.unit.line(node.pos))

    # ---- INSERT --------------------------------------------------------------------------------------------------

    def _insert(self, node: t.Insert) -> Capture:
        unit = self.unit
        line = unit.line(node.pos)
        if node.top is not None:
            raise unsupported("INSERT TOP")
        info = self.table(node.target)
        unit.use("INSERT", info)
        lock = read_lock(info, node.target.hints, unit.context.isolation, change=True)
        if node.target.hints & WHOLE and is_base(info) and lock is not None:
            unit.shared.reads.append(lock)
        if "TABLOCKX" in node.target.hints:
            unit.shared.before.append(f"LOCK TABLE {info.relation} IN EXCLUSIVE MODE")
        identity_on = unit.context.identity_insert == info.object_id and info.object_id != 0
        chosen = self._insert_columns(info, node.columns, identity_on, line)
        capture = Capture(unit, info, "INSERT", {"INSERT"})
        instead = capture.instead_of("INSERT")
        into = info.relation if instead is None else capture.instead_insert()
        names = ", ".join(info.physical[i] for i in chosen)
        if node.rows is None and node.query is None:
            body = "DEFAULT VALUES"
        elif node.rows is not None:
            expressions = Expressions(unit, Scope())
            rows = []
            for row in node.rows:
                self._width(len(row), len(chosen), node.columns, line)
                rows.append(
                    f"({', '.join(self._assign(expressions, info, i, item) for i, item in zip(chosen, row, strict=True))})"
                )
            body = f"({names}) VALUES {', '.join(rows)}"
            capture.few = True
        else:
            assert node.query is not None
            relation = self.queries.query(node.query, None, keep_null=True)
            if len(relation.columns) != len(chosen):
                self._width(len(relation.columns), len(chosen), node.columns, line, select=True)
            values = []
            for position, i in enumerate(chosen):
                type = relation.columns[position].type
                value = Value(f"x.c{position + 1}", type, IMPLICIT if type.name in CHARACTER else 0)
                values.append(self.assigned(info, i, value, line))
            body = f"({names}) SELECT {', '.join(values)} FROM ({relation.sql}) x"
        capture.statement(f"INSERT INTO {into} {body}" if instead else f"INSERT INTO {into} AS d {body}")
        capture.outputs(node.outputs, Scope(), inserted=True, deleted=False)
        return capture

    def _insert_columns(self, info: TableInfo, names: list[str] | None, identity_on: bool, line: int) -> list[int]:
        if names is None:
            chosen = [
                i
                for i, column in enumerate(info.columns)
                if not column.computed and (not column.identity or identity_on)
            ]
        else:
            chosen = [self._column(info, name, line) for name in names]
            for i in chosen:
                column = info.columns[i]
                if chosen.count(i) > 1:
                    raise SqlError(
                        264,
                        f"The column name '{column.name}' is specified more than once in the SET clause or column list of an "
                        "INSERT. A column cannot be assigned more than one value in the same clause.",
                        line=line,
                    )
                self._writable(column, line)
                if column.identity and not identity_on:
                    raise SqlError(
                        544,
                        f"Cannot insert explicit value for identity column in table '{info.name}' when IDENTITY_INSERT is "
                        "set to OFF.",
                        line=line,
                    )
        if identity_on and not any(info.columns[i].identity for i in chosen):
            raise SqlError(
                545,
                f"Explicit value must be specified for identity column in table '{info.name}' either when IDENTITY_INSERT is "
                "set to ON or when a replication user is inserting into a NOT FOR REPLICATION identity column.",
                line=line,
            )
        return chosen

    def _writable(self, column: Column, line: int) -> None:
        if column.computed:
            raise SqlError(
                271,
                f'The column "{column.name}" cannot be modified because it is either a computed column or is the result of '
                "a UNION operator.",
                line=line,
            )

    def _width(self, given: int, wanted: int, names: list[str] | None, line: int, *, select: bool = False) -> None:
        if given == wanted:
            return
        if names is None:
            raise SqlError(213, "Column name or number of supplied values does not match table definition.", line=line)
        few = given < wanted
        where = "select list" if select else "VALUES clause"
        if select:
            raise SqlError(
                120 if few else 121,
                f"The select list for the INSERT statement contains {'fewer' if few else 'more'} items than the insert list. "
                "The number of SELECT values must match the number of INSERT columns.",
                severity=15,
                line=line,
            )
        raise SqlError(
            109 if few else 110,
            f"There are {'more' if few else 'fewer'} columns in the INSERT statement than values specified in the {where}. "
            "The number of values in the VALUES clause must match the number of columns specified in the INSERT statement.",
            severity=15,
            line=line,
        )

    # ---- UPDATE and DELETE ---------------------------------------------------------------------------------------

    def _update(self, node: t.Update) -> Capture:
        unit = self.unit
        target = find_target(self, node.target, node.source, node.ctes)
        target.hints = node.target.hints | (target.leaf.hints if isinstance(target.leaf, t.TableRef) else frozenset())
        info = target.info
        unit.use("UPDATE", info)
        if node.where is not None or node.source is not None:
            unit.use("SELECT", info)
        capture = Capture(unit, info, "UPDATE", {"UPDATE"})
        instead = capture.instead_of("UPDATE") is not None
        simple = target.simple and node.top is None and not instead
        if node.where is None and unit.context.rowcount:
            raise unsupported("SET ROWCOUNT with UPDATE")
        scope, others, where = self._from(target, node.where, simple)
        expressions = Expressions(unit, scope)
        expressions.no_aggregate = _IN_SET
        sets: dict[int, str] = {}
        moved: set[int] = set()
        variables: list[tuple[str, int | None, t.Node]] = []
        for assignment in node.assignments:
            line = unit.line(assignment.value.pos)
            index: int | None = None
            if assignment.column is not None:
                index = target.column(self._column, assignment.column, line)
                column = info.columns[index]
                self._updatable(column, line)
                if index in sets:
                    raise SqlError(
                        264,
                        f"The column name '{column.name}' is specified more than once in the SET clause or column list of an "
                        "INSERT. A column cannot be assigned more than one value in the same clause.",
                        line=line,
                    )
                sets[index] = self._assign(expressions, info, index, assignment.value)
                if computed(unit, assignment.value):
                    moved.add(index)
            if assignment.variable is not None:
                variables.append((assignment.variable, index, assignment.value))
        if target.bound is not None and target.bound.read:
            unit.use("SELECT", info)
        for i, column in enumerate(info.columns):
            if column.type.name == "rowversion":
                sets[i] = "DEFAULT"
        if not sets:
            # Only variables: a no-op assignment keeps the row count and the locks.
            free = next(i for i, c in enumerate(info.columns) if not c.computed and not c.identity)
            sets[free] = f"d.{info.physical[free]}"
            if not simple:
                sets[free] = f"{target.alias}.{info.physical[free]}"
        if instead:
            capture.instead_update(self._rows_of(target, scope, others, where, node.top), sets, target.alias)
            return capture
        if simple:
            listed = ", ".join(f"{info.physical[i]} = {value}" for i, value in sets.items())
            sql = f"UPDATE {info.relation} AS d SET {listed}"
            if others:
                sql += f" FROM {', '.join(others)}"
            if where:
                sql += f" WHERE {where}"
        else:
            carried = {i: value for i, value in sets.items() if value != "DEFAULT"}
            listed = ", ".join(
                f"{info.physical[i]} = {'DEFAULT' if value == 'DEFAULT' else f's.v{i}'}" for i, value in sets.items()
            )
            chosen = "".join(f", {value} AS v{i}" for i, value in carried.items())
            rows = self._keys(target, others, where, node.top, chosen)
            sql = f"UPDATE {info.relation} AS d SET {listed} FROM ({rows}) s WHERE d.ctid = s.k"
        capture.statement(sql)
        capture.outputs(node.outputs, scope if simple else Scope(), inserted=True, deleted=True, hidden=target.bound)
        if not target.one_row:
            capture.moves = tuple(i.index_id for i in info.indexes if i.unique and moved.intersection(i.columns))
        if variables:
            capture.assign(variables, target, scope if simple else Scope())
        return capture

    def _updatable(self, column: Column, line: int) -> None:
        if column.identity:
            raise SqlError(8102, f"Cannot update identity column '{column.name}'.", line=line)
        if column.type.name == "rowversion":
            raise SqlError(272, "Cannot update a timestamp column.", line=line)
        self._writable(column, line)

    def _from(self, target: Target, where: t.Node | None, simple: bool) -> tuple[Scope, list[str], str]:
        """The scope, the FROM items beside the target (or the whole FROM, if not `simple`), and the condition."""
        unit = self.unit
        scope = Scope()
        sources = Sources(unit, self.queries, scope, False)
        others: list[str] = []
        conditions: list[str] = []
        if simple:
            bound = target.bind("d")
            scope.sources.append(bound)
            reading = sources.reading(target.info, bound, target.hints, change=True)
            for source in target.others:
                others.append(sources.compile(source))
            expressions = Expressions(unit, scope)
            narrow(expressions, scope, sources.readings, where, target.source)
            target.one_row = reading is not None and reading.one_row
            conditions += [expressions.condition(node) for node in target.conditions]
        else:
            others.append(target.compile_from(sources, scope))
            expressions = Expressions(unit, scope)
            if target.bound is not None:
                sources.reading(target.info, target.bound, target.hints, change=True)
            narrow(expressions, scope, sources.readings if target.inner is None else (), where, target.source)
        expressions.no_aggregate = "An aggregate may not appear in the WHERE clause."
        if where is not None:
            conditions.append(expressions.condition(where))
        return scope, others, " AND ".join(conditions)

    def _keys(self, target: Target, others: Sequence[str], where: str, top: t.Top | None, chosen: str) -> str:
        """The rows to change, by their place in the table, locked so that a concurrent change is waited for."""
        limit = ""
        if top is not None:
            if top.percent or top.ties:
                raise unsupported("TOP ... PERCENT or WITH TIES in a change")
            limit = self.queries._limits(top, t.Query(t.Select([])), None)
        condition = f" WHERE {where}" if where else ""
        lock = f" FOR UPDATE OF {target.alias}" if target.lockable else ""
        key = target.key or f"{target.alias}.ctid"
        return f"SELECT {key} AS k{chosen} FROM {', '.join(others)}{condition}{limit}{lock}"

    def _rows_of(self, target: Target, scope: Scope, others: Sequence[str], where: str, top: t.Top | None) -> str:
        del scope
        if top is not None:
            raise unsupported("TOP in a change with an INSTEAD OF trigger")
        return f"{', '.join(others)}{f' WHERE {where}' if where else ''}"

    def _delete(self, node: t.Delete) -> Capture:
        unit = self.unit
        target = find_target(self, node.target, node.source, node.ctes)
        target.hints = node.target.hints | (target.leaf.hints if isinstance(target.leaf, t.TableRef) else frozenset())
        info = target.info
        unit.use("DELETE", info)
        if node.where is not None or node.source is not None:
            unit.use("SELECT", info)
        capture = Capture(unit, info, "DELETE", {"DELETE"})
        instead = capture.instead_of("DELETE") is not None
        simple = target.simple and node.top is None and not instead
        scope, others, where = self._from(target, node.where, simple)
        if instead:
            capture.instead_delete(self._rows_of(target, scope, others, where, node.top), target.alias)
            return capture
        if simple:
            sql = f"DELETE FROM {info.relation} AS d"
            if others:
                sql += f" USING {', '.join(others)}"
            if where:
                sql += f" WHERE {where}"
        else:
            rows = self._keys(target, others, where, node.top, "")
            sql = f"DELETE FROM {info.relation} AS d USING ({rows}) s WHERE d.ctid = s.k"
        capture.statement(sql)
        capture.outputs(node.outputs, scope if simple else Scope(), inserted=False, deleted=True, hidden=target.bound)
        return capture

    # ---- MERGE ---------------------------------------------------------------------------------------------------

    def _merge(self, node: t.Merge) -> Capture:
        unit = self.unit
        info = self.table(node.target)
        actions = {when.action for when in node.whens}
        for action in sorted(actions):
            unit.use(action, info)
        unit.use("SELECT", info)
        capture = Capture(unit, info, "MERGE", actions)
        if any(capture.instead_of(action) for action in actions):
            raise unsupported("MERGE into a table with INSTEAD OF triggers")
        scope = Scope()
        source_scope = Scope()
        sources = Sources(unit, self.queries, source_scope, False)
        source = sources.compile(node.source)
        schema = "" if node.target.alias else info.schema
        database = "" if node.target.alias else info.database
        bound = Bound(node.target.alias or info.name, schema, database, info.columns, [f"d.{p}" for p in info.physical])
        scope.sources = [bound, *source_scope.sources]
        sources.reading(info, bound, node.target.hints, change=True)
        expressions = Expressions(unit, scope)
        if all(when.matched != "SOURCE" for when in node.whens):
            narrow(expressions, scope, sources.readings[-1:] if is_base(info) else (), node.on, node.source)
        on = expressions.condition(node.on)
        if isinstance(node.source, t.Join):
            source = f"({source})"
        parts = [f"MERGE INTO {info.relation} AS d USING {source} ON {on}"]
        for when in node.whens:
            parts.append(self._when(when, info, scope, source_scope, bound))
        capture.statement(" ".join(parts))
        capture.outputs(node.outputs, source_scope, inserted=True, deleted=True, action="merge_action()")
        return capture

    def _when(self, when: t.When, info: TableInfo, scope: Scope, source_scope: Scope, bound: Bound) -> str:
        unit = self.unit
        visible = {"MATCHED": scope, "TARGET": source_scope, "SOURCE": Scope(None, [bound])}[when.matched]
        expressions = Expressions(unit, visible)
        head = {
            "MATCHED": "WHEN MATCHED",
            "TARGET": "WHEN NOT MATCHED BY TARGET",
            "SOURCE": "WHEN NOT MATCHED BY SOURCE",
        }[when.matched]
        if when.condition is not None:
            head += f" AND {expressions.condition(when.condition)}"
        if when.action == "DELETE":
            return f"{head} THEN DELETE"
        if when.action == "UPDATE":
            sets = []
            for assignment in when.assignments:
                line = unit.line(assignment.value.pos)
                if assignment.column is None or assignment.variable is not None:
                    raise unsupported("a variable in MERGE ... UPDATE SET")
                index = self._column(info, assignment.column[-1], line)
                self._updatable(info.columns[index], line)
                sets.append(f"{info.physical[index]} = {self._assign(expressions, info, index, assignment.value)}")
            sets += [
                f"{p} = DEFAULT"
                for p, c in zip(info.physical, info.columns, strict=True)
                if c.type.name == "rowversion"
            ]
            return f"{head} THEN UPDATE SET {', '.join(sets)}"
        line = unit.line(when.values[0].pos)
        identity_on = unit.context.identity_insert == info.object_id and info.object_id != 0
        chosen = self._insert_columns(info, when.columns, identity_on, line)
        self._width(len(when.values), len(chosen), when.columns, line)
        values = ", ".join(self._assign(expressions, info, i, v) for i, v in zip(chosen, when.values, strict=True))
        return f"{head} THEN INSERT ({', '.join(info.physical[i] for i in chosen)}) VALUES ({values})"

    # ---- TRUNCATE ------------------------------------------------------------------------------------------------

    def _truncate(self, node: t.Truncate) -> Compiled:
        info = self.table(node.target)
        self.unit.use("ALTER", info)
        return Compiled(
            "TRUNCATE",
            f"TRUNCATE TABLE {info.relation} RESTART IDENTITY",
            uses=list(self.unit.shared.uses),
            target=info,
        )
