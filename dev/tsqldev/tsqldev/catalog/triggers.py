"""CREATE and ALTER TRIGGER, of tables, views and the server; ENABLE and DISABLE TRIGGER."""

from __future__ import annotations

from tsqldev.catalog.alter import set_triggers
from tsqldev.catalog.modules import (
    ModuleOptions,
    Verb,
    read_body,
    read_module_options,
    read_verb,
    record_dependencies,
    store_module,
)
from tsqldev.catalog.statement import Statement
from tsqldev.errors import SqlError, unsupported


def create_trigger(st: Statement) -> None:
    read = st.read
    verb = read_verb(st)
    read.expect("TRIGGER")
    parts = read.qualified()
    read.expect("ON")
    if read.take("ALL", "SERVER"):
        _server_trigger(st, verb, parts)
        return
    if read.peek("DATABASE"):
        raise unsupported("DDL triggers")
    on = read.qualified()
    options = ModuleOptions()
    if read.take("WITH"):
        options = read_module_options(st)
    instead = read.take("INSTEAD", "OF")
    if not instead and not read.take("AFTER"):
        read.expect("FOR")
    actions = [_action(st)]
    while read.take(","):
        actions.append(_action(st))
    if read.peek("WITH", "APPEND") or read.peek("NOT", "FOR", "REPLICATION"):
        raise unsupported(read.token.value)
    body, line = read_body(st, verb)
    parent = st.find(on, "U", "V")
    if parent is None:
        raise SqlError(8197, f"The object '{'.'.join(on)}' does not exist or is invalid for this operation.")
    if parent.type == "V" and not instead:
        raise SqlError(8197, f"The object '{'.'.join(on)}' does not exist or is invalid for this operation.")
    if not st.holds("OBJECT", parent.object_id, "ALTER"):
        raise SqlError(8197, f"The object '{'.'.join(on)}' does not exist or is invalid for this operation.")
    if len(parts) > 1 and parts[-2].casefold() != parent.schema.casefold():
        raise SqlError(
            2103,
            f"Cannot {'create' if verb.create else 'alter'} trigger '{'.'.join(parts)}' because its schema is"
            " different from the schema of the target table or view.",
        )
    found = st.find((parent.schema, parts[-1]))
    if found is not None and (not verb.alter or found.type != "TR"):
        raise SqlError(2714, f"There is already an object named '{parts[-1]}' in the database.", state=2)
    if found is None and not verb.create:
        raise SqlError(208, f"Invalid object name '{'.'.join(parts)}'.", state=6)
    if instead:
        taken = st.one(
            "select o.name, a from meta.triggers t join meta.objects o using (object_id), unnest(t.actions) a"
            " where t.parent_id = %s and t.is_instead_of and a = any (%s) and t.object_id <> %s",
            parent.object_id,
            actions,
            found.object_id if found else 0,
        )
        if taken is not None:
            raise SqlError(
                2111,
                f"Cannot create trigger '{parts[-1]}' on {'view' if parent.type == 'V' else 'table'}"
                f" '{parent.schema}.{parent.name}' because an INSTEAD OF {taken[1]} trigger already exists on this"
                " object.",
            )
    place = (parent.database_id, parent.schema_id, parts[-1], parent.object_id)
    object_id = store_module(st, verb, found, place, "TR", body, line, options)
    st.run(
        "insert into meta.triggers (object_id, parent_id, is_instead_of, actions) values (%s, %s, %s, %s)"
        " on conflict (object_id) do update set parent_id = excluded.parent_id, is_instead_of = excluded.is_instead_of,"
        " actions = excluded.actions",
        object_id,
        parent.object_id,
        instead,
        actions,
    )
    record_dependencies(st, object_id, body)
    st.changed()


def _action(st: Statement) -> str:
    action = st.read.take_any("INSERT", "UPDATE", "DELETE")
    if action is None:
        raise st.read.error()
    return action


def _server_trigger(st: Statement, verb: Verb, parts: tuple[str, ...]) -> None:
    read = st.read
    if len(parts) > 1:
        raise SqlError(1098, "The specified event type(s) is/are not valid on the specified target object.")
    options = ModuleOptions()
    if read.take("WITH"):
        options = read_module_options(st)
    if not read.take("AFTER"):
        read.expect("FOR")
    if not read.take("LOGON"):
        raise unsupported(f"server triggers for {read.token.text}")
    body, line = read_body(st, verb)
    if not st.holds("SERVER", 0, "CONTROL SERVER"):
        raise SqlError(300, "CONTROL SERVER permission was denied on object 'server', database 'master'.", severity=14)
    execute_as: int | None = options.execute_as
    if execute_as is not None:
        execute_as = st.principal.login_id
    if options.execute_as_name is not None:
        execute_as = st.value(
            "select principal_id from meta.logins where key = meta.fold(%s) and type = 'S'", options.execute_as_name
        )
        if execute_as is None:
            raise SqlError(
                15406,
                f'Cannot execute as the server principal because the principal "{options.execute_as_name}" does not exist, this type of principal cannot be impersonated, or you do not have permission.',
            )
    existing = st.value("select object_id from meta.server_triggers where key = meta.fold(%s)", parts[0])
    if existing is not None and not verb.alter:
        raise SqlError(2714, f"There is already an object named '{parts[0]}' in the database.", state=2)
    if existing is None and not verb.create:
        raise SqlError(208, f"Invalid object name '{parts[0]}'.", state=6)
    values = (
        *(verb.definition, body, line, st.context.ansi_nulls, st.context.quoted_identifier, execute_as),
        existing or st.value("select nextval('meta.object_ids')::int"),
    )
    if existing is None:
        st.run(
            "insert into meta.server_triggers (name, events, definition, body, body_line, uses_ansi_nulls,"
            " uses_quoted_identifier, execute_as_principal_id, object_id)"
            " values (%s, '{LOGON}', %s, %s, %s, %s, %s, %s, %s)",
            parts[0],
            *values,
        )
    else:
        st.run(
            "update meta.server_triggers set definition = %s, body = %s, body_line = %s, uses_ansi_nulls = %s,"
            " uses_quoted_identifier = %s, execute_as_principal_id = %s, modify_date = meta.now() where object_id = %s",
            *values,
        )
    st.changed()


def switch_trigger(st: Statement) -> None:
    """ENABLE / DISABLE TRIGGER ... ON table, view or ALL SERVER."""
    read = st.read
    disabled = read.next().value == "DISABLE"
    read.expect("TRIGGER")
    names: list[str] | None = None
    if not read.take("ALL"):
        names = [read.qualified()[-1]]
        while read.take(","):
            names.append(read.qualified()[-1])
    read.expect("ON")
    if read.take("ALL", "SERVER"):
        read.end()
        if not st.holds("SERVER", 0, "CONTROL SERVER"):
            raise SqlError(
                1088,
                f'Cannot find the object "{(names or ["ALL"])[0]}" because it does not exist or you do not have permissions.',
            )
        rows = st.run("select object_id, key from meta.server_triggers")
        wanted = {row[1] for row in rows} if names is None else {name.lower() for name in names}
        chosen = [row[0] for row in rows if row[1] in wanted]
        if len(chosen) < len(wanted):
            raise SqlError(
                1088,
                f'Cannot find the object "{(names or [""])[0]}" because it does not exist or you do not have permissions.',
            )
        st.run("update meta.server_triggers set is_disabled = %s where object_id = any (%s)", disabled, chosen)
        st.changed()
        return
    if read.take("DATABASE"):
        raise unsupported("DDL triggers")
    on = read.qualified()
    read.end()
    found = st.find(on, "U", "V")
    if found is None or not st.holds("OBJECT", found.object_id, "ALTER"):
        raise SqlError(
            1088, f'Cannot find the object "{".".join(on)}" because it does not exist or you do not have permissions.'
        )
    set_triggers(st, found, names, disabled=disabled)
    st.changed()
