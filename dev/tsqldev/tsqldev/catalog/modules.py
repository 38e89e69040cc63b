"""What views, procedures and triggers share: their text is kept as it was sent. Procedures, and DROP of all."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tsqldev.catalog.definitions import default_text, read_type
from tsqldev.catalog.statement import Found, Statement
from tsqldev.catalog.tables import forget, may_create_in, may_drop, require_no_other_kind
from tsqldev.catalog.tokens import STRING, VARIABLE, WORD, Reader
from tsqldev.errors import SqlError, unsupported
from tsqldev.types import CHARACTER, SqlType

_KIND_OF = {"VIEW": "V", "PROCEDURE": "P", "PROC": "P", "TRIGGER": "TR"}


OWNER = -2


@dataclass(frozen=True, slots=True)
class Verb:
    """CREATE, ALTER or CREATE OR ALTER, and the text as it is stored: as a CREATE."""

    create: bool
    alter: bool
    definition: str


def read_verb(st: Statement) -> Verb:
    read, text = st.read, st.text
    first = read.next()
    if first.value == "ALTER":
        return Verb(False, True, text[: first.start] + "CREATE" + text[first.end :])
    if read.peek("OR", "ALTER"):
        word_or, word_alter = read.next(), read.next()
        kept = text[: word_or.start] + text[word_or.end : word_alter.start] + text[word_alter.end :]
        return Verb(True, True, kept)
    return Verb(True, False, text)


@dataclass(slots=True)
class ModuleOptions:
    execute_as: int | None = None
    execute_as_name: str | None = None


def read_module_options(st: Statement) -> ModuleOptions:
    read = st.read
    options = ModuleOptions()
    while True:
        if read.peek("EXECUTE", "AS") or read.peek("EXEC", "AS"):
            read.next()
            read.next()
            token = read.next()
            if token.kind == STRING:
                options.execute_as_name = token.value
            elif token.value == "OWNER":
                options.execute_as = OWNER
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


def read_body(st: Statement, verb: Verb) -> tuple[str, int]:
    """What follows AS: its text, and the line of the definition on which it begins."""
    st.read.expect("AS")
    start = st.read.token.start
    shift = len(verb.definition) - len(st.text)
    return verb.definition[start + shift :], verb.definition.count("\n", 0, start + shift) + 1


def create_procedure(st: Statement) -> None:
    read = st.read
    verb = read_verb(st)
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
    options = ModuleOptions()
    if read.take("WITH"):
        options = read_module_options(st)
    if read.peek("FOR"):
        raise unsupported("FOR REPLICATION")
    body, line = read_body(st, verb)
    found, place = module_place(st, verb, parts, "P", "CREATE PROCEDURE")
    object_id = store_module(st, verb, found, place, "P", body, line, options)
    st.run("delete from meta.parameters where object_id = %s", object_id)
    for number, (name, kind, default, output) in enumerate(parameters, 1):
        st.run(
            "insert into meta.parameters values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            *(object_id, number, name, kind.name, kind.length, kind.precision, kind.scale, kind.collation),
            default,
            output,
        )
    record_dependencies(st, object_id, body)
    st.changed()


Place = tuple[int, int, str, int]


def module_place(
    st: Statement, verb: Verb, parts: tuple[str, ...], kind: str, permission: str
) -> tuple[Found | None, Place]:
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


def store_module(
    st: Statement,
    verb: Verb,
    found: Found | None,
    place: Place,
    kind: str,
    body: str,
    line: int,
    options: ModuleOptions,
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


def record_dependencies(st: Statement, object_id: int, body: str) -> None:
    """The names that a text uses where tables and procedures stand. CTEs are none, nor are #temp tables."""
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
            require_no_other_kind(st, parts, noun.upper())
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
