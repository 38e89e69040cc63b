"""CREATE, ALTER and DROP INDEX."""

from __future__ import annotations

from dataclasses import replace

from tsqldev.catalog.build import TableBuilder, index_sql, open_table
from tsqldev.catalog.definitions import KeySpec, index_filter, key_columns, read_filegroup, read_names, read_options
from tsqldev.catalog.statement import Found, Statement
from tsqldev.errors import SqlError, unsupported


def _table(st: Statement, parts: tuple[str, ...]) -> tuple[Found, TableBuilder]:
    found = st.find(parts, "U", "V")
    if found is None or not st.holds("OBJECT", found.object_id, "ALTER"):
        raise SqlError(
            1088,
            f'Cannot find the object "{".".join(parts)}" because it does not exist or you do not have permissions.',
        )
    if found.type == "V":
        raise unsupported("indexes on views")
    return found, open_table(st, found)


def create_index(st: Statement) -> None:
    read = st.read
    read.expect("CREATE")
    unique = read.take("UNIQUE")
    clustered = read.take("CLUSTERED")
    if not clustered:
        read.take("NONCLUSTERED")
    columnstore = read.take("COLUMNSTORE")
    if not read.peek("INDEX"):
        raise unsupported(f"CREATE {read.token.value} INDEX")
    read.expect("INDEX")
    name = read.name()
    read.expect("ON")
    parts = read.qualified()
    columns: tuple[tuple[str, bool], ...] = ()
    if not (columnstore and clustered):
        columns = key_columns(read)
    elif read.peek("ORDER"):
        raise unsupported("ordered columnstore indexes")
    included = read_names(read) if read.take("INCLUDE") else ()
    condition = index_filter(read) if read.take("WHERE") else None
    options = read_options(read)
    read_filegroup(read)
    read.end()
    found, build = _table(st, parts)
    spec = KeySpec(name, False, clustered, columns, False, unique, included, condition, columnstore, replace(options))
    if options.drop_existing:
        index_id = st.value(
            "select index_id from meta.indexes where object_id = %s and key = meta.fold(%s)", found.object_id, name
        )
        if index_id is None:
            raise SqlError(7999, f"Could not find any index named '{name}' for table '{'.'.join(parts)}'.")
        remove_index(st, found.object_id, index_id)
    build.add_key(spec)
    st.run("update meta.objects set modify_date = meta.now() where object_id = %s", found.object_id)
    st.changed()


def remove_index(st: Statement, object_id: int, index_id: int) -> None:
    st.run(f"drop index if exists data.i{object_id}_{index_id}")
    st.run(f"drop index if exists data.p{object_id}_{index_id}")
    st.run(f"drop index if exists data.q{object_id}_{index_id}")
    st.run(
        "delete from meta.extended_properties where class = 7 and major_id = %s and minor_id = %s", object_id, index_id
    )
    st.run("delete from meta.indexes where object_id = %s and index_id = %s", object_id, index_id)


def drop_index(st: Statement) -> None:
    read = st.read
    read.expect("DROP", "INDEX")
    quietly = read.take("IF", "EXISTS")
    while True:
        name = read.qualified()
        if read.take("ON"):
            parts = read.qualified()
            if read.peek("WITH"):
                read_options(read)
        elif len(name) > 1:
            # The old form, DROP INDEX table.index.
            parts, name = name[:-1], name[-1:]
        else:
            raise SqlError(159, "Must specify the table name and index name for the DROP INDEX statement.", severity=15)
        _drop_one(st, parts, name[0], quietly=quietly)
        if not read.take(","):
            break
    read.end()
    st.changed()


def _drop_one(st: Statement, parts: tuple[str, ...], name: str, *, quietly: bool) -> None:
    found = st.find(parts, "U", "V")
    row = None
    if found is not None and st.holds("OBJECT", found.object_id, "ALTER"):
        row = st.one(
            "select index_id, is_primary_key, is_unique_constraint, name from meta.indexes"
            " where object_id = %s and key = meta.fold(%s)",
            found.object_id,
            name,
        )
    if found is None or row is None:
        if quietly:
            return
        raise SqlError(
            3701,
            f"Cannot drop the index '{'.'.join(parts)}.{name}', because it does not exist or you do not have"
            " permission.",
            severity=11,
            state=7,
        )
    if row[1] or row[2]:
        kind = "PRIMARY KEY" if row[1] else "UNIQUE KEY"
        raise SqlError(
            3723,
            f"An explicit DROP INDEX is not allowed on index '{'.'.join(parts)}.{row[3]}'. It is being used"
            f" for {kind} constraint enforcement.",
        )
    user = st.value(
        "select o.name from meta.foreign_keys f join meta.objects o using (object_id)"
        " where f.referenced_object_id = %s and f.key_index_id = %s limit 1",
        found.object_id,
        row[0],
    )
    if user is not None:
        raise SqlError(
            3723,
            f"An explicit DROP INDEX is not allowed on index '{'.'.join(parts)}.{row[3]}'. It is being used"
            " for FOREIGN KEY constraint enforcement.",
        )
    remove_index(st, found.object_id, row[0])


def alter_index(st: Statement) -> None:
    """REBUILD, REORGANIZE, DISABLE and SET; only DISABLE and REBUILD change what is enforced."""
    read = st.read
    read.expect("ALTER", "INDEX")
    name = None if read.take("ALL") else read.name()
    read.expect("ON")
    found, build = _table(st, read.qualified())
    rows = st.run(
        "select index_id, name, is_unique, physical_filter, is_disabled, type from meta.indexes where object_id = %s"
        " and (%s::text is null or key = meta.fold(%s)) order by index_id",
        found.object_id,
        name,
        name,
    )
    if name is not None and not rows:
        raise SqlError(2727, f"Cannot find index '{name}'.")
    if read.take("DISABLE"):
        read.end()
        if any(row[0] == 1 for row in rows):
            raise unsupported("disabling a clustered index")
        for index_id, *_ in rows:
            st.run(f"drop index if exists data.i{found.object_id}_{index_id}")
        st.run(
            "update meta.indexes set is_disabled = true where object_id = %s and index_id = any (%s)",
            found.object_id,
            [row[0] for row in rows],
        )
    elif read.take("REBUILD"):
        if read.take("PARTITION", "="):
            read.next()
        written = read.peek("WITH")
        options = read_options(read)
        read.end()
        for index_id, _, unique, condition, disabled, kind in rows:
            if disabled and kind in (1, 2):
                keys = [
                    (next(c for c in build.columns if c.column_id == row[0]), bool(row[1]))
                    for row in st.run(
                        "select column_id, is_descending from meta.index_columns where object_id = %s and index_id = %s"
                        " and key_ordinal > 0 order by key_ordinal",
                        found.object_id,
                        index_id,
                    )
                ]
                st.run(
                    index_sql(build.compiler, f"i{found.object_id}_{index_id}", build.relation, keys, unique, condition)
                )
            st.run(
                "update meta.indexes set is_disabled = false where object_id = %s and index_id = %s",
                found.object_id,
                index_id,
            )
            if written:
                st.run(
                    "update meta.indexes set compression = %s, fill_factor = %s where object_id = %s and index_id = %s",
                    options.compression,
                    options.fill_factor,
                    found.object_id,
                    index_id,
                )
    elif read.take("REORGANIZE"):
        if read.take("PARTITION", "="):
            read.next()
        read_options(read)
        read.end()
    else:
        raise unsupported(f"ALTER INDEX ... {read.token.text}")
    st.changed()
