"""CREATE, ALTER and DROP of views, procedures and triggers. Their text is kept as it was sent."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tsqldev.catalog.alter import set_triggers
from tsqldev.catalog.definitions import default_text, read_names, read_type
from tsqldev.catalog.statement import Found, Statement
from tsqldev.catalog.tables import forget, may_create_in, may_drop
from tsqldev.catalog.tokens import STRING, VARIABLE, WORD
from tsqldev.errors import SqlError, unsupported
from tsqldev.interfaces import Column
from tsqldev.types import CHARACTER, SqlType

_KIND_OF = {"VIEW": "V", "PROCEDURE": "P", "PROC": "P", "TRIGGER": "TR"}
_OWNER = -2


@dataclass(frozen=True, slots=True)
class _Verb:
    """CREATE, ALTER or CREATE OR ALTER, and the text as it is stored: as a CREATE."""

    create: bool
    alter: bool
    definition: str


def _verb(st: Statement) -> _Verb:
    read, text = st.read, st.text
    first = read.next()
    if first.value == "ALTER":
        return _Verb(False, True, text[: first.start] + "CREATE" + text[first.end :])
    if read.peek("OR", "ALTER"):
        word_or, word_alter = read.next(), read.next()
        kept = text[: word_or.start] + text[word_or.end : word_alter.start] + text[word_alter.end :]
        return _Verb(True, True, kept)
    return _Verb(True, False, text)


@dataclass(slots=True)
class _Options:
    execute_as: int | None = None
    execute_as_name: str | None = None


def _options(st: Statement) -> _Options:
    read = st.read
    options = _Options()
    while True:
        if read.peek("EXECUTE", "AS") or read.peek("EXEC", "AS"):
            read.next()
            read.next()
            token = read.next()
            if token.kind == STRING:
                options.execute_as_name = token.value
            elif token.value == "OWNER":
                options.execute_as = _OWNER
            elif token.value == "SELF":
                options.execute_as = st.principal.user_id
            elif token.value != "CALLER":
                raise read.error()
        elif read.take("RECOMPILE"):
            pass
        else:
            raise unsupported(f"the module option {read.token.text}")
        if not read.take(","):
            return options


def _body(st: Statement, verb: _Verb) -> tuple[str, int]:
    """What follows AS: its text, and the line of the definition on which it begins."""
    st.read.expect("AS")
    start = st.read.token.start
    shift = len(verb.definition) - len(st.text)
    return verb.definition[start + shift :], verb.definition.count("\n", 0, start + shift) + 1


def create_view(st: Statement) -> None:
    read = st.read
    verb = _verb(st)
    read.expect("VIEW")
    parts = read.qualified()
    names = read_names(read) if read.peek("(") else ()
    if read.take("WITH"):
        raise unsupported(f"the view option {read.token.text}")
    body, line = _body(st, verb)
    stripped = body.rstrip().rstrip(";").rstrip()
    if stripped.upper().endswith("CHECK OPTION"):
        raise unsupported("WITH CHECK OPTION")
    found, place = _target(st, verb, parts, "V", "CREATE VIEW")
    compiled = st.compiler().statement(stripped)
    if compiled.kind != "SELECT":
        raise SqlError(102, f"Incorrect syntax near '{stripped[:20]}'.", severity=15)
    columns = list(compiled.columns)
    if names:
        if len(names) != len(columns):
            number = 8158 if len(columns) > len(names) else 8159
            more = "more" if number == 8158 else "fewer"
            raise SqlError(number, f"'{parts[-1]}' has {more} columns than were specified in the column list.")
        columns = [replace(column, name=name) for column, name in zip(columns, names, strict=True)]
    _check_columns(parts[-1], columns)
    object_id = _store(st, verb, found, place, "V", stripped, line, _Options())
    st.run("delete from meta.columns where object_id = %s", object_id)
    for column_id, column in enumerate(columns, 1):
        _view_column(st, object_id, column_id, column)
    _dependencies(st, object_id, stripped)
    st.changed()


def _check_columns(view: str, columns: list[Column]) -> None:
    seen: set[str] = set()
    for number, column in enumerate(columns, 1):
        if not column.name:
            raise SqlError(
                4511, f"Create View or Function failed because no column name was specified for column {number}."
            )
        if column.name.casefold() in seen:
            raise SqlError(
                4506,
                f"Column names in each view or function must be unique. Column name '{column.name}' in view or function"
                f" '{view}' is specified more than once.",
            )
        seen.add(column.name.casefold())


def _view_column(st: Statement, object_id: int, column_id: int, column: Column) -> None:
    kind = column.type if column.type.name != "null" else SqlType("int")
    st.run(
        "insert into meta.columns (object_id, column_id, name, type_name, length, precision, scale, collation_name,"
        " is_nullable) values (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
        *(object_id, column_id, column.name, kind.name, kind.length, kind.precision, kind.scale),
        kind.collation,
        kind.nullable,
    )


def refresh_view(st: Statement, parts: tuple[str, ...]) -> None:
    """sp_refreshview, sp_refreshsqlmodule: the columns of a view as its text answers them now."""
    found = st.find(parts, "V", "P", "TR")
    if found is None or not st.holds("OBJECT", found.object_id, "ALTER"):
        raise SqlError(
            15009,
            f"The object '{'.'.join(parts)}' does not exist in database '{st.principal.database}' or is"
            " invalid for this operation.",
        )
    if found.type != "V":
        return
    body = st.value("select body from meta.modules where object_id = %s", found.object_id)
    columns = st.compiler().statement(body).columns
    names = [
        row[0]
        for row in st.run("select name from meta.columns where object_id = %s order by column_id", found.object_id)
    ]
    listed = "(" in st.value(
        "select split_part(definition, body, 1) from meta.modules where object_id = %s", found.object_id
    )
    st.run("delete from meta.columns where object_id = %s", found.object_id)
    for column_id, column in enumerate(columns, 1):
        renamed = replace(column, name=names[column_id - 1]) if listed and column_id <= len(names) else column
        _view_column(st, found.object_id, column_id, renamed)
    st.run("update meta.objects set modify_date = meta.now() where object_id = %s", found.object_id)
    st.changed()


def create_procedure(st: Statement) -> None:
    read = st.read
    verb = _verb(st)
    read.next()
    parts = read.qualified()
    if read.peek(";"):
        raise unsupported("numbered procedures")
    parenthesised = read.take("(")
    parameters: list[tuple[str, SqlType, str | None, bool]] = []
    while read.token.kind == VARIABLE:
        name = read.next().value
        read.take("AS")
        kind = read_type(read)
        if kind.name in CHARACTER:
            kind = replace(
                kind,
                collation=st.value("select collation_name from meta.databases where database_id = %s", st.database_id),
            )
        if read.peek("VARYING") or read.peek("READONLY"):
            raise unsupported(f"{read.token.value} parameters")
        if not read.take("NULL") and read.take("NOT"):
            read.expect("NULL")
        default = default_text(read) if read.take("=") else None
        output = read.take("OUTPUT") or read.take("OUT")
        parameters.append((name, kind, default, output))
        if not read.take(","):
            break
    if parenthesised:
        read.expect(")")
    options = _Options()
    if read.take("WITH"):
        options = _options(st)
    if read.peek("FOR"):
        raise unsupported("FOR REPLICATION")
    body, line = _body(st, verb)
    found, place = _target(st, verb, parts, "P", "CREATE PROCEDURE")
    object_id = _store(st, verb, found, place, "P", body, line, options)
    st.run("delete from meta.parameters where object_id = %s", object_id)
    for number, (name, kind, default, output) in enumerate(parameters, 1):
        st.run(
            "insert into meta.parameters values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            *(object_id, number, name, kind.name, kind.length, kind.precision, kind.scale, kind.collation),
            default,
            output,
        )
    _dependencies(st, object_id, body)
    st.changed()


def create_trigger(st: Statement) -> None:
    read = st.read
    verb = _verb(st)
    read.expect("TRIGGER")
    parts = read.qualified()
    read.expect("ON")
    if read.take("ALL", "SERVER"):
        _server_trigger(st, verb, parts)
        return
    if read.peek("DATABASE"):
        raise unsupported("DDL triggers")
    on = read.qualified()
    options = _Options()
    if read.take("WITH"):
        options = _options(st)
    instead = read.take("INSTEAD", "OF")
    if not instead and not read.take("AFTER"):
        read.expect("FOR")
    actions = [_action(st)]
    while read.take(","):
        actions.append(_action(st))
    if read.peek("WITH", "APPEND") or read.peek("NOT", "FOR", "REPLICATION"):
        raise unsupported(read.token.value)
    body, line = _body(st, verb)
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
    object_id = _store(st, verb, found, place, "TR", body, line, options)
    st.run(
        "insert into meta.triggers (object_id, parent_id, is_instead_of, actions) values (%s, %s, %s, %s)"
        " on conflict (object_id) do update set parent_id = excluded.parent_id, is_instead_of = excluded.is_instead_of,"
        " actions = excluded.actions",
        object_id,
        parent.object_id,
        instead,
        actions,
    )
    _dependencies(st, object_id, body)
    st.changed()


def _action(st: Statement) -> str:
    action = st.read.take_any("INSERT", "UPDATE", "DELETE")
    if action is None:
        raise st.read.error()
    return action


def _server_trigger(st: Statement, verb: _Verb, parts: tuple[str, ...]) -> None:
    read = st.read
    if len(parts) > 1:
        raise SqlError(1098, "The specified event type(s) is/are not valid on the specified target object.")
    options = _Options()
    if read.take("WITH"):
        options = _options(st)
    if not read.take("AFTER"):
        read.expect("FOR")
    if not read.take("LOGON"):
        raise unsupported(f"server triggers for {read.token.text}")
    body, line = _body(st, verb)
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


_Place = tuple[int, int, str, int]


def _target(
    st: Statement, verb: _Verb, parts: tuple[str, ...], kind: str, permission: str
) -> tuple[Found | None, _Place]:
    """The module that exists already (for ALTER), and where it belongs."""
    if len(parts) > 2:
        word = permission.partition(" ")[2]
        raise SqlError(
            166,
            f"'CREATE/ALTER {word}' does not allow specifying the database name as a prefix to the object name.",
            severity=15,
        )
    database_id, schema_name, name = st.place(parts)
    found = st.find((schema_name, name))
    if found is not None and (not verb.alter or found.type != kind):
        number = 2714 if found.type == kind or not verb.alter else 2010
        text = (
            f"There is already an object named '{name}' in the database."
            if number == 2714
            else f"Cannot perform alter on '{'.'.join(parts)}' because it is an incompatible object type."
        )
        raise SqlError(number, text, state=3)
    if found is None:
        if not verb.create:
            raise SqlError(208, f"Invalid object name '{'.'.join(parts)}'.", state=6)
        schema_id, _, _ = may_create_in(st, database_id, schema_name, permission)
        return None, (database_id, schema_id, name, 0)
    if not st.holds("OBJECT", found.object_id, "ALTER"):
        raise SqlError(
            3704,
            "User does not have permission to perform this operation on"
            f" {permission.partition(' ')[2].lower()} '{name}'.",
        )
    return found, (database_id, found.schema_id, found.name, 0)


def _store(
    st: Statement,
    verb: _Verb,
    found: Found | None,
    place: _Place,
    kind: str,
    body: str,
    line: int,
    options: _Options,
) -> int:
    execute_as = options.execute_as
    if options.execute_as_name is not None:
        name = options.execute_as_name
        execute_as = st.access.as_user(st.principal, name).user_id
    database_id, schema_id, name, parent = place
    if found is None:
        object_id = int(st.value("select nextval('meta.object_ids')"))
        st.run(
            "insert into meta.objects (object_id, database_id, schema_id, name, type, parent_object_id)"
            " values (%s, %s, %s, %s, %s, %s)",
            *(object_id, database_id, schema_id, name, kind, parent),
        )
    else:
        object_id = found.object_id
        st.run(
            "update meta.objects set modify_date = meta.now(), parent_object_id = %s where object_id = %s",
            parent,
            object_id,
        )
        st.run("delete from meta.modules where object_id = %s", object_id)
    st.run(
        "insert into meta.modules (object_id, definition, body, body_line, uses_ansi_nulls, uses_quoted_identifier,"
        " execute_as_principal_id) values (%s, %s, %s, %s, %s, %s, %s)",
        *(object_id, verb.definition, body, line, st.context.ansi_nulls, st.context.quoted_identifier, execute_as),
    )
    return object_id


_BEFORE_NAMES = frozenset({"FROM", "JOIN", "APPLY", "INTO", "UPDATE", "USING", "EXEC", "EXECUTE"})


def _dependencies(st: Statement, object_id: int, body: str) -> None:
    """The names that a text uses where tables and procedures stand. CTEs are none, nor are #temp tables."""
    from tsqldev.catalog.tokens import Reader

    st.run("delete from meta.dependencies where object_id = %s", object_id)
    read = Reader(body, quoted_identifier=st.context.quoted_identifier)
    local = {
        token.value.upper()
        for token, word, opening in zip(read.tokens, read.tokens[1:], read.tokens[2:], strict=False)
        if token.is_name() and word.value == "AS" and word.kind == WORD and opening.value == "("
    }
    seen: list[tuple[str, ...]] = []
    while read.token.kind != "end":
        token = read.next()
        if token.kind == WORD and token.value in _BEFORE_NAMES and read.token.is_name():
            parts = read.qualified()
            if len(parts) == 1 and (parts[0].upper() in local or parts[0].upper() in ("INSERTED", "DELETED")):
                continue
            if not parts[-1].startswith("#") and parts not in seen and not read.peek("("):
                seen.append(parts)
    for ordinal, parts in enumerate(seen, 1):
        padded = (None,) * (4 - len(parts)) + tuple(part or None for part in parts)
        st.run("insert into meta.dependencies values (%s, %s, %s, %s, %s, %s)", object_id, ordinal, *padded[-4:])


def drop_module(st: Statement) -> None:
    read = st.read
    read.expect("DROP")
    word = read.next().value
    kind = _KIND_OF[word]
    quietly = read.take("IF", "EXISTS")
    names = [read.qualified()]
    while read.take(","):
        names.append(read.qualified())
    if kind == "TR" and read.take("ON", "ALL", "SERVER"):
        read.end()
        _drop_server_triggers(st, names, quietly=quietly)
        return
    read.end()
    noun = {"V": "view", "P": "procedure", "TR": "trigger"}[kind]
    for parts in names:
        found = st.find(parts, kind)
        if found is None:
            if quietly:
                continue
            raise SqlError(
                3701,
                f"Cannot drop the {noun} '{'.'.join(parts)}', because it does not exist or you do not have permission.",
                severity=11,
                state=5,
            )
        allowed = st.holds("OBJECT", found.parent_object_id, "ALTER") if kind == "TR" else may_drop(st, found)
        if not allowed:
            raise SqlError(
                3701,
                f"Cannot drop the {noun} '{'.'.join(parts)}', because it does not exist or you do not have permission.",
                severity=14,
                state=20,
            )
        forget(st, found)
    st.changed()


def _drop_server_triggers(st: Statement, names: list[tuple[str, ...]], *, quietly: bool) -> None:
    for parts in names:
        known = st.value("select object_id from meta.server_triggers where key = meta.fold(%s)", parts[-1])
        if known is None and quietly:
            continue
        if known is None or not st.holds("SERVER", 0, "CONTROL SERVER"):
            raise SqlError(
                3701,
                f"Cannot drop the trigger '{parts[-1]}', because it does not exist or you do not have permission.",
                severity=11,
                state=5,
            )
        st.run("delete from meta.server_triggers where object_id = %s", known)
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
