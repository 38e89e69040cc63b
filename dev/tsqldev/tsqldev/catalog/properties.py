"""sp_rename and the extended-property procedures."""

from __future__ import annotations

from tsqldev.catalog.statement import Found, Statement
from tsqldev.catalog.tokens import Reader
from tsqldev.errors import SqlError, unsupported


def _parts(name: str) -> tuple[str, ...]:
    read = Reader(name)
    parts = read.qualified()
    read.end()
    return parts


def rename(st: Statement, old: str, new: str, kind: str | None) -> None:
    """`new` is taken as it is, brackets and all. Views and procedures that name the object are not changed."""
    kind = (kind or "OBJECT").upper()
    parts = _parts(old)
    if not new:
        raise SqlError(15223, "Error: The input parameter 'newname' is not allowed to be null.", severity=11)
    if kind == "COLUMN":
        _rename_column(st, parts, new)
    elif kind == "INDEX":
        _rename_index(st, parts, new)
    elif kind == "OBJECT":
        _rename_object(st, parts, new)
    else:
        raise unsupported(f"sp_rename of {kind}")
    st.result.infos.append(
        (15477, "Caution: Changing any part of an object name could break scripts and stored procedures.")
    )
    st.changed()


def _ambiguous(kind: str, name: str) -> SqlError:
    if kind == "OBJECT":
        return SqlError(
            15225,
            f"No item by the name of '{name}' could be found in the current database, given that @itemtype was input as"
            " '(null)'.",
            severity=11,
        )
    return SqlError(
        15248, f"Either the parameter @objname is ambiguous or the claimed @objtype ({kind}) is wrong.", severity=11
    )


def _require_alter(st: Statement, found: Found, kind: str, name: str) -> None:
    holder = found.parent_object_id or found.object_id
    if not st.holds("OBJECT", holder, "ALTER"):
        raise _ambiguous(kind, name)


def _rename_object(st: Statement, parts: tuple[str, ...], new: str) -> None:
    shown = ".".join(parts)
    found = st.find(parts[-2:] if len(parts) > 2 else parts)
    if found is None:
        raise _ambiguous("OBJECT", shown)
    _require_alter(st, found, "OBJECT", shown)
    if st.one(
        "select 1 from meta.objects where database_id = %s and schema_id = %s and key = meta.fold(%s) and"
        " object_id <> %s",
        *(found.database_id, found.schema_id, new, found.object_id),
    ):
        raise SqlError(
            15335,
            f"Error: The new name '{new}' is already in use as a object name and would cause a duplicate that"
            " is not permitted.",
            severity=11,
        )
    st.run("update meta.objects set name = %s, modify_date = meta.now() where object_id = %s", new, found.object_id)
    if found.type in ("PK", "UQ"):
        st.run(
            "update meta.indexes i set name = %s from meta.key_constraints k"
            " where k.object_id = %s and i.object_id = k.parent_object_id and i.index_id = k.index_id",
            *(new, found.object_id),
        )


def _rename_column(st: Statement, parts: tuple[str, ...], new: str) -> None:
    shown = ".".join(parts)
    found = st.find(parts[:-1][-2:], "U") if len(parts) > 1 else None
    row = found and st.one(
        "select column_id from meta.columns where object_id = %s and key = meta.fold(%s)", found.object_id, parts[-1]
    )
    if found is None or not row:
        raise _ambiguous("COLUMN", shown)
    _require_alter(st, found, "COLUMN", shown)
    if st.one(
        "select 1 from meta.columns where object_id = %s and key = meta.fold(%s) and column_id <> %s",
        *(found.object_id, new, row[0]),
    ):
        raise SqlError(
            15335,
            f"Error: The new name '{new}' is already in use as a COLUMN name and would cause a duplicate that"
            " is not permitted.",
            severity=11,
        )
    enforced = st.value(
        "select o.name from meta.check_constraints c join meta.objects o using (object_id)"
        " where c.parent_object_id = %s and c.physical ~ ('\\mc' || %s || '\\M') limit 1",
        *(found.object_id, row[0]),
    )
    if enforced is not None:
        raise SqlError(
            15336,
            f"Object '{shown}' cannot be renamed because the object participates in enforced dependencies.",
            severity=11,
        )
    st.run("update meta.columns set name = %s where object_id = %s and column_id = %s", new, found.object_id, row[0])
    st.run("update meta.objects set modify_date = meta.now() where object_id = %s", found.object_id)


def _rename_index(st: Statement, parts: tuple[str, ...], new: str) -> None:
    shown = ".".join(parts)
    found = st.find(parts[:-1][-2:], "U", "V") if len(parts) > 1 else None
    row = found and st.one(
        "select index_id from meta.indexes where object_id = %s and key = meta.fold(%s)", found.object_id, parts[-1]
    )
    if found is None or not row:
        raise _ambiguous("INDEX", shown)
    _require_alter(st, found, "INDEX", shown)
    if st.one(
        "select 1 from meta.indexes where object_id = %s and key = meta.fold(%s) and index_id <> %s",
        *(found.object_id, new, row[0]),
    ):
        raise SqlError(
            15335,
            f"Error: The new name '{new}' is already in use as a INDEX name and would cause a duplicate that"
            " is not permitted.",
            severity=11,
        )
    st.run("update meta.indexes set name = %s where object_id = %s and index_id = %s", new, found.object_id, row[0])
    # The constraint of a key index bears the same name.
    st.run(
        "update meta.objects o set name = %s from meta.key_constraints k"
        " where o.object_id = k.object_id and k.parent_object_id = %s and k.index_id = %s",
        *(new, found.object_id, row[0]),
    )


_OBJECT_TYPES = {"TABLE": ("U",), "VIEW": ("V",), "PROCEDURE": ("P",)}
_Level = tuple[str | None, str | None]


def extended_property(
    st: Statement, verb: str, name: str, value: str | None, levels: tuple[_Level, _Level, _Level]
) -> None:
    """sp_addextendedproperty, sp_updateextendedproperty, sp_dropextendedproperty: verb ADD, UPDATE, DROP.

    `levels`: (type, name) of levels 0 to 2, (None, None) where not given.
    """
    class_id, major_id, minor_id, shown = _securable(st, levels)
    key = (st.database_id, class_id, major_id, minor_id, name)
    where = "database_id = %s and class = %s and major_id = %s and minor_id = %s and key = meta.fold(%s)"
    exists = st.one(f"select 1 from meta.extended_properties where {where}", *key)
    if verb == "ADD":
        if exists:
            raise SqlError(15233, f"Property cannot be added. Property '{name}' already exists for '{shown}'.")
        st.run(
            "insert into meta.extended_properties (database_id, class, major_id, minor_id, name, value)"
            " values (%s, %s, %s, %s, %s, %s)",
            *(*key, value),
        )
    elif not exists:
        raise SqlError(15217, f"Property cannot be updated or deleted. Property '{name}' does not exist for '{shown}'.")
    elif verb == "UPDATE":
        st.run(f"update meta.extended_properties set value = %s where {where}", value, *key)
    else:
        st.run(f"delete from meta.extended_properties where {where}", *key)
    st.changed()


def _securable(st: Statement, levels: tuple[_Level, _Level, _Level]) -> tuple[int, int, int, str]:
    (type0, name0), (type1, name1), (type2, name2) = levels
    missing = SqlError(
        15135, "Object is invalid. Extended properties are not permitted on this object, or the object does not exist."
    )
    if type0 is None:
        if not st.holds("DATABASE", 0, "ALTER"):
            raise missing
        return 0, 0, 0, "database"
    if type0.upper() != "SCHEMA" or name0 is None:
        raise unsupported(f"extended properties of {type0}")
    row = st.one(
        "select schema_id from meta.schemas where database_id = %s and key = meta.fold(%s)", st.database_id, name0
    )
    if row is None:
        raise missing
    if type1 is None:
        if not st.holds("SCHEMA", row[0], "ALTER"):
            raise missing
        return 3, row[0], 0, name0
    kinds = _OBJECT_TYPES.get(type1.upper())
    if kinds is None or name1 is None:
        raise unsupported(f"extended properties of {type1}")
    found = st.find((name0, name1), *kinds)
    if found is None or not st.holds("OBJECT", found.object_id, "ALTER"):
        raise missing
    shown = f"{name0}.{name1}"
    if type2 is None:
        return 1, found.object_id, 0, shown
    kind = type2.upper()
    if kind == "COLUMN":
        minor = st.value(
            "select column_id from meta.columns where object_id = %s and key = meta.fold(%s)", found.object_id, name2
        )
        class_id, major = 1, found.object_id
    elif kind == "INDEX":
        minor = st.value(
            "select index_id from meta.indexes where object_id = %s and key = meta.fold(%s)", found.object_id, name2
        )
        class_id, major = 7, found.object_id
    elif kind in ("CONSTRAINT", "TRIGGER"):
        inner = st.value(
            "select object_id from meta.objects where parent_object_id = %s and key = meta.fold(%s)",
            found.object_id,
            name2,
        )
        if inner is None:
            raise missing
        return 1, inner, 0, f"{shown}.{name2}"
    else:
        raise unsupported(f"extended properties of {type2}")
    if minor is None:
        raise missing
    return class_id, major, minor, f"{shown}.{name2}"
