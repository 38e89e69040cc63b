"""What happens to the rows that a statement changed: OUTPUT, variables, and the tables of its triggers."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tsqldev.compile import tree as t
from tsqldev.compile.convert import IMPLICIT, Destination, Value, convert
from tsqldev.compile.expressions import Expressions
from tsqldev.compile.locking import written_keys
from tsqldev.compile.scope import Bound, Scope
from tsqldev.compile.unit import Unit, is_base
from tsqldev.errors import SqlError, unsupported
from tsqldev.interfaces import KEYS_LIMIT, Column, Compiled, TableInfo, TriggerFire, TriggerInfo, ViewInfo
from tsqldev.types import CHARACTER, INT

if TYPE_CHECKING:
    from tsqldev.compile.targets import Target


class Capture:
    """Collects the parts of one changing statement, then writes it.

    Without triggers and OUTPUT ... INTO the statement stands alone, with RETURNING where the client or variables
    want rows. Otherwise it becomes a WITH whose first part changes and whose others store what it returned.
    """

    def __init__(self, unit: Unit, info: TableInfo, kind: str, actions: set[str]) -> None:
        self.unit = unit
        self.info = info
        self.kind = kind
        self.actions = actions
        self.sql = ""
        self.returned: list[str] = []
        self.columns: list[Column] = []
        self.assigns: list[str] = []
        self.stores: list[tuple[str, list[str], list[str]]] = []
        self.client = False
        self.before: list[str] = []
        self.fires: list[TriggerFire] = []
        self.instead: TriggerInfo | None = None
        self.keys: list[str] = []
        # INSERT ... VALUES: so few rows that all their keys may be returned.
        self.few = False
        self.moves: tuple[int, ...] = ()

    # ---- triggers ------------------------------------------------------------------------------------------------

    def _triggers(self, action: str, *, instead_of: bool) -> list[TriggerInfo]:
        running = self.unit.context.running_triggers
        return [
            trigger
            for trigger in self.info.triggers
            if trigger.instead_of == instead_of
            and action in trigger.actions
            and not trigger.disabled
            and trigger.object_id not in running
        ]

    def instead_of(self, action: str) -> TriggerInfo | None:
        found = self._triggers(action, instead_of=True)
        self.instead = found[0] if found else self.instead
        return found[0] if found else None

    def transition(self, which: str, action: str) -> TableInfo:
        """The temporary table of inserted or deleted rows for one action at this nesting level."""
        info = self.info
        # The shape is in the name, so that a table can be used again as long as it fits.
        shape = zlib.crc32(self._definition().encode())
        name = f"pg_temp.{which}_{action.lower()}_{info.object_id}_{self.unit.context.depth}_{shape:08x}"
        return replace(
            info,
            object_id=0,
            database="",
            schema="",
            name=which,
            relation=name,
            triggers=(),
            columns=tuple(replace(c, identity=False, computed=False, has_default=False) for c in info.columns),
        )

    def _definition(self) -> str:
        return ", ".join(
            f"{physical} {column.type.postgres}"
            for physical, column in zip(self.info.physical, self.info.columns, strict=True)
        )

    def _create(self, table: TableInfo) -> None:
        """An empty table. Emptied by DELETE: prepared plans stay valid, as they would not after TRUNCATE or DROP."""
        self.before.append(
            f"CREATE TEMP TABLE IF NOT EXISTS {table.relation} ({self._definition()}); DELETE FROM {table.relation}"
        )

    def _fire(self, action: str, triggers: Sequence[TriggerInfo]) -> tuple[TableInfo, TableInfo]:
        inserted, deleted = self.transition("inserted", action), self.transition("deleted", action)
        for table in (inserted, deleted):
            self._create(table)
        self.fires += [TriggerFire(trigger, action, inserted, deleted) for trigger in triggers]
        return inserted, deleted

    def instead_insert(self) -> str:
        """The relation that takes the rows in place of the table: inserted, with the defaults of the table."""
        assert self.instead is not None
        inserted, _ = self._fire("INSERT", [self.instead])
        steps = [
            f"DROP TABLE IF EXISTS {inserted.relation}",
            f"CREATE TEMP TABLE {inserted.relation} (LIKE {self.info.relation} INCLUDING DEFAULTS)",
        ]
        for physical, column in zip(self.info.physical, self.info.columns, strict=True):
            steps.append(f"ALTER TABLE {inserted.relation} ALTER COLUMN {physical} DROP NOT NULL")
            if column.identity:
                steps.append(f"ALTER TABLE {inserted.relation} ALTER COLUMN {physical} SET DEFAULT 0")
        self.before[0] = "; ".join(steps)
        return inserted.relation

    def instead_delete(self, rows: str, alias: str) -> None:
        assert self.instead is not None
        _, deleted = self._fire("DELETE", [self.instead])
        columns = ", ".join(self.info.physical)
        values = ", ".join(f"{alias}.{physical}" for physical in self.info.physical)
        self.sql = f"INSERT INTO {deleted.relation} ({columns}) SELECT {values} FROM {rows}"

    def instead_update(self, rows: str, sets: dict[int, str], alias: str) -> None:
        assert self.instead is not None
        if "DEFAULT" in sets.values():
            raise unsupported("DEFAULT in an UPDATE with an INSTEAD OF trigger")
        inserted, deleted = self._fire("UPDATE", [self.instead])
        physical = self.info.physical
        columns = ", ".join(physical)
        old = ", ".join(f"{alias}.{p} AS o{i}" for i, p in enumerate(physical))
        new = ", ".join(f"{sets.get(i, f'{alias}.{p}')} AS n{i}" for i, p in enumerate(physical))
        olds = ", ".join(f"o{i}" for i in range(len(physical)))
        news = ", ".join(f"n{i}" for i in range(len(physical)))
        self.sql = (
            f"WITH m AS MATERIALIZED (SELECT {old}, {new} FROM {rows}), "
            f"o AS (INSERT INTO {deleted.relation} ({columns}) SELECT {olds} FROM m) "
            f"INSERT INTO {inserted.relation} ({columns}) SELECT {news} FROM m"
        )

    # ---- OUTPUT and variables ------------------------------------------------------------------------------------

    def statement(self, sql: str) -> None:
        self.sql = sql

    def outputs(
        self,
        outputs: Sequence[t.Output],
        scope: Scope,
        *,
        inserted: bool,
        deleted: bool,
        hidden: Bound | None = None,
        action: str | None = None,
    ) -> None:
        """`scope` holds the other sources of the statement; `hidden` the target, which OUTPUT may not name."""
        if not outputs:
            return
        if self.instead is not None:
            raise unsupported("OUTPUT of a table with an INSTEAD OF trigger")
        visible = Scope(None, [source for source in scope.sources if source is not hidden])
        info = self.info
        nullable = len(self.actions) > 1
        columns = [replace(c, type=c.type.with_nullable(c.type.nullable or nullable)) for c in info.columns]
        if inserted:
            visible.sources.append(Bound("inserted", "", "", columns, [f"new.{p}" for p in info.physical]))
        if deleted:
            visible.sources.append(Bound("deleted", "", "", columns, [f"old.{p}" for p in info.physical]))
        expressions = Expressions(self.unit, visible)
        expressions.action = action
        for output in outputs:
            values, names = self._output_items(output, visible, expressions)
            if any(source.read for source in visible.sources if source.name in ("inserted", "deleted")):
                self.unit.use("SELECT", info)
            if output.into is None:
                if any(self._triggers(a, instead_of=False) for a in self.actions):
                    raise SqlError(
                        334,
                        f"The target table '{info.name}' of the DML statement cannot have any enabled triggers if the "
                        "statement contains an OUTPUT clause without INTO clause.",
                    )
                if self.client:
                    raise SqlError(156, "Incorrect syntax near the keyword 'OUTPUT'.", severity=15)
                self.client = True
                self.columns = [Column(name, value.type) for name, value in zip(names, values, strict=True)]
                self.returned = [value.sql for value in values]
            else:
                self._into(output, values)

    def _output_items(self, output: t.Output, scope: Scope, expressions: Expressions) -> tuple[list[Value], list[str]]:
        values: list[Value] = []
        names: list[str] = []
        for item in output.items:
            if isinstance(item.expression, t.Star):
                for source in scope.matching(item.expression.parts) if item.expression.parts else scope.sources:
                    source.read = True
                    for column, sql in zip(source.columns, source.sql, strict=True):
                        values.append(Value(sql, column.type, IMPLICIT if column.type.name in CHARACTER else 0))
                        names.append(column.name)
                continue
            value = expressions.value(item.expression)
            if value.type.name == "null":
                value = Value("NULL::int4", INT)
            values.append(value)
            node = item.expression
            plain = node.parts[-1] if isinstance(node, t.Name) else ""
            if isinstance(node, t.Call) and node.name.upper() == "$ACTION":
                plain = "$action"
            names.append(item.alias or plain)
        return values, names

    def _into(self, output: t.Output, values: Sequence[Value]) -> None:
        assert output.into is not None
        target = self.unit.resolve(output.into, 1)
        if isinstance(target, ViewInfo) or target.system:
            raise SqlError(208, f"Invalid object name '{'.'.join(output.into)}'.")
        if target.triggers:
            raise SqlError(
                331, f"The target table '{target.name}' of the OUTPUT INTO clause cannot have any enabled triggers."
            )
        self.unit.use("INSERT", target)
        if output.columns:
            lookup = {c.name.casefold(): i for i, c in enumerate(target.columns)}
            missing = [name for name in output.columns if name.casefold() not in lookup]
            if missing:
                raise SqlError(207, f"Invalid column name '{missing[0]}'.")
            chosen = [lookup[name.casefold()] for name in output.columns]
        else:
            chosen = [i for i, c in enumerate(target.columns) if not (c.identity or c.computed)]
        if len(chosen) != len(values):
            raise SqlError(213, "Column name or number of supplied values does not match table definition.")
        stored = [
            convert(value, target.columns[i].type, destination=Destination(target.name, target.columns[i].name)).sql
            for i, value in zip(chosen, values, strict=True)
        ]
        self.stores.append((target.relation, [target.physical[i] for i in chosen], stored))

    def assign(self, variables: Sequence[tuple[str, int | None, t.Node]], target: Target, scope: Scope) -> None:
        """SET @variable = ... of an UPDATE: the last changed row gives the values."""
        if self.client:
            raise unsupported("OUTPUT beside SET @variable = ... in an UPDATE")
        info = self.info
        before = Bound(target.name, "", "", info.columns, [f"old.{p}" for p in info.physical])
        visible = Scope(None, [before, *[source for source in scope.sources if source is not target.bound]])
        expressions = Expressions(self.unit, visible)
        for name, index, node in variables:
            type = self.unit.context.variables.get(name)
            if type is None:
                raise SqlError(137, f'Must declare the scalar variable "{name}".', severity=15)
            value = (
                Value(f"new.{info.physical[index]}", info.columns[index].type)
                if index is not None
                else expressions.value(node)
            )
            self.assigns.append(name)
            self.columns.append(Column("", type))
            self.returned.append(convert(value, type).sql)

    # ---- the whole -----------------------------------------------------------------------------------------------

    def finish(self, prefix: str) -> Compiled:
        info = self.info
        identity = next((p for p, c in zip(info.physical, info.columns, strict=True) if c.identity), None)
        compiled = Compiled(self.kind, "", target=info)
        sql = self.sql
        wide = False
        if self.instead is None:
            self._keyed(compiled)
            after = {action: self._triggers(action, instead_of=False) for action in sorted(self.actions)}
            after = {action: triggers for action, triggers in after.items() if triggers}
            counted = bool(self.keys) and not self.returned and not self.few
            if after or self.stores or counted:
                sql = self._captured(after)
                wide = not self.returned
            elif self.returned or self.keys:
                returned = [f"{r} AS c{i}" for i, r in enumerate(self.returned, 1)]
                sql = f"{sql} RETURNING {', '.join([*returned, *self._named_keys()])}"
        if prefix:
            sql = self._prefixed(prefix, sql)
        compiled.sql = sql
        compiled.parameters = self.unit.parameters()
        compiled.columns = self.columns
        compiled.assigns = self.assigns
        compiled.before = self.unit.shared.before + self.before
        compiled.uses = list(self.unit.shared.uses)
        compiled.fires = self.fires
        compiled.moves = self.moves if is_base(self.info) else ()
        compiled.reads = self.unit.shared.reads
        compiled.count_in_result = wide
        if self.kind in ("INSERT", "MERGE"):
            compiled.identity_column = identity
        return compiled

    def _keyed(self, compiled: Compiled) -> None:
        """The keys of the changed rows as further columns, where the session asks for them."""
        compiled.keyed = self.unit.context.keyed
        if not compiled.keyed or not is_base(self.info):
            return
        sides = ["new"] if self.kind == "INSERT" else ["old"] if self.kind == "DELETE" else ["old", "new"]
        self.keys, layout = written_keys(self.info, sides)
        compiled.keys = tuple(layout)

    def _named_keys(self) -> list[str]:
        return [f"{key} AS k{i}" for i, key in enumerate(self.keys, 1)]

    def _prefixed(self, prefix: str, sql: str) -> str:
        if not sql.startswith("WITH "):
            return f"{prefix} {sql}"
        return f"{prefix}, {sql[len('WITH ') :]}"

    def _captured(self, after: dict[str, list[TriggerInfo]]) -> str:
        physical = self.info.physical
        returned: list[str] = []
        steps: list[str] = []
        merged = self.kind == "MERGE"
        if merged:
            returned.append("merge_action() AS a")
        if after:
            if self.actions - {"DELETE"}:
                returned += [f"new.{p} AS n{i}" for i, p in enumerate(physical)]
            if self.actions - {"INSERT"}:
                returned += [f"old.{p} AS o{i}" for i, p in enumerate(physical)]
        columns = ", ".join(physical)
        for action, triggers in after.items():
            inserted, deleted = self._fire(action, triggers)
            condition = f" WHERE a = '{action}'" if merged else ""
            if action != "DELETE":
                listed = ", ".join(f"n{i}" for i in range(len(physical)))
                steps.append(f"INSERT INTO {inserted.relation} ({columns}) SELECT {listed} FROM m{condition}")
            if action != "INSERT":
                listed = ", ".join(f"o{i}" for i in range(len(physical)))
                steps.append(f"INSERT INTO {deleted.relation} ({columns}) SELECT {listed} FROM m{condition}")
        for number, (relation, names, values) in enumerate(self.stores):
            returned += [f"{value} AS s{number}_{i}" for i, value in enumerate(values)]
            listed = ", ".join(f"s{number}_{i}" for i in range(len(values)))
            steps.append(f"INSERT INTO {relation} ({', '.join(names)}) SELECT {listed} FROM m")
        returned += [f"{value} AS c{i}" for i, value in enumerate(self.returned, 1)]
        returned += self._named_keys()
        parts = [f"m AS ({self.sql} RETURNING {', '.join(returned)})"]
        parts += [f"m{i} AS ({step})" for i, step in enumerate(steps, 1)]
        last = [f"c{i}" for i in range(1, len(self.returned) + 1)]
        keys = [f"k{i}" for i in range(1, len(self.keys) + 1)]
        limit = ""
        if not last and keys:
            # The count stands beside the keys of as many rows as the session would lock one by one.
            last, limit = ["(SELECT count(*)::int8 FROM m)"], f" LIMIT {KEYS_LIMIT + 1}"
        elif not last:
            last = ["count(*)::int8"]
        return f"WITH {', '.join(parts)} SELECT {', '.join(last + keys)} FROM m{limit}"
