"""Tables, keys and indexes: what the catalog says of them, and that PostgreSQL enforces it."""

from __future__ import annotations

import psycopg
import pytest
from tsqldev.types import BIN2_COLLATION, DEFAULT_COLLATION, SqlType

from .support import Session


def test_columns_have_their_t_sql_types(session: Session) -> None:
    session.run(
        "CREATE TABLE dbo.t (a int NOT NULL, b nvarchar(10), c varchar(max) COLLATE Latin1_General_100_BIN2 NULL,"
        " d decimal(20, 0), e datetime2(3), f sysname, g varbinary(16), h uniqueidentifier, [i j] bit)"
    )
    types = {column.name: column.type for column in session.table("DBO.T").columns}
    assert types["a"] == SqlType("int", nullable=False)
    assert types["b"] == SqlType("nvarchar", 10, collation=DEFAULT_COLLATION)
    assert types["c"] == SqlType("varchar", -1, collation=BIN2_COLLATION)
    assert types["d"] == SqlType("decimal", precision=20, scale=0)
    assert types["e"] == SqlType("datetime2", scale=3)
    assert types["f"] == SqlType("sysname", 128, collation=DEFAULT_COLLATION, nullable=False)
    assert list(types) == ["a", "b", "c", "d", "e", "f", "g", "h", "i j"]
    described = session.view("sys.columns", "name, system_type_id, user_type_id, max_length, precision, scale")
    assert ("b", 231, 231, 20, 0, 0) in described
    assert ("c", 167, 167, -1, 0, 0) in described
    assert ("d", 106, 106, 13, 20, 0) in described
    assert ("e", 42, 42, 7, 23, 3) in described
    assert ("f", 231, 256, 256, 0, 0) in described


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("CREATE TABLE dbo.x (a int, A int)", 2705),
        ("CREATE TABLE dbo.x (a strange)", 2715),
        ("CREATE TABLE dbo.x (a varchar(8001))", 131),
        ("CREATE TABLE nowhere.x (a int)", 2760),
        ("CREATE TABLE dbo.taken (a int)", 2714),
        ("CREATE TABLE dbo.x (a int CONSTRAINT pk PRIMARY KEY, b int, CONSTRAINT pk UNIQUE (b))", 2714),
        ("CREATE TABLE dbo.x (a int NULL PRIMARY KEY)", 8111),
        ("CREATE TABLE dbo.x (a int REFERENCES dbo.taken (b))", 1776),
        ("CREATE TABLE dbo.x (a bigint REFERENCES dbo.taken (a))", 1778),
        ("CREATE TABLE dbo.x (a int IDENTITY, b int IDENTITY)", 2744),
        ("CREATE TABLE dbo.x (a int) ON [elsewhere]", 40000),
        ("DROP TABLE dbo.x", 3701),
        ("ALTER TABLE dbo.x ADD b int", 4902),
        ("ALTER TABLE dbo.taken DROP COLUMN nothing", 4924),
        ("ALTER TABLE dbo.taken DROP COLUMN a", 4922),
        ("ALTER TABLE dbo.taken DROP CONSTRAINT nothing", 3728),
        ("CREATE INDEX pk_taken ON dbo.taken (b)", 1913),
        ("CREATE CLUSTERED INDEX c ON dbo.taken (b)", 1902),
        ("DROP INDEX pk_taken ON dbo.taken", 3723),
        ("TRUNCATE TABLE dbo.x", 4701),
    ],
)
def test_refusals(session: Session, statement: str, number: int) -> None:
    session.run("CREATE TABLE dbo.taken (a int NOT NULL CONSTRAINT pk_taken PRIMARY KEY, b int)")
    assert session.refused(statement) == number


def test_keys_are_enforced_and_nulls_are_equal(session: Session) -> None:
    session.run("CREATE TABLE dbo.t (a int NOT NULL PRIMARY KEY, b int UNIQUE)")
    relation = session.table("dbo.t").relation
    session.connection.execute(f"insert into {relation} values (1, null)".encode())
    with pytest.raises(psycopg.errors.UniqueViolation), session.connection.transaction():
        session.connection.execute(f"insert into {relation} values (2, null)".encode())


def test_foreign_keys_on_several_columns(session: Session) -> None:
    session.run("CREATE TABLE dbo.p (a int NOT NULL, b bigint NOT NULL, CONSTRAINT pk_p PRIMARY KEY CLUSTERED (a, b))")
    session.run(
        "CREATE TABLE dbo.c (x bigint, y int, CONSTRAINT fk_c FOREIGN KEY (x, y) REFERENCES dbo.p (b, a) ON DELETE CASCADE)"
    )
    assert session.view("sys.foreign_keys", "name, delete_referential_action_desc") == [("fk_c", "CASCADE")]
    columns = session.view("sys.foreign_key_columns", "constraint_column_id, parent_column_id, referenced_column_id")
    assert columns == [(1, 1, 2), (2, 2, 1)]
    with pytest.raises(psycopg.errors.ForeignKeyViolation), session.connection.transaction():
        session.connection.execute(f"insert into {session.table('dbo.c').relation} values (1, 1)".encode())
    assert session.refused("DROP TABLE dbo.p") == 3726
    assert session.refused("ALTER TABLE dbo.p DROP CONSTRAINT pk_p") == 3725
    session.run("ALTER TABLE dbo.c NOCHECK CONSTRAINT fk_c")
    assert session.view("sys.foreign_keys", "is_disabled, is_not_trusted") == [(1, 1)]
    session.connection.execute(f"insert into {session.table('dbo.c').relation} values (1, 1)".encode())


def test_indexes_as_the_catalog_describes_them(session: Session) -> None:
    session.run("CREATE TABLE dbo.t (a int NOT NULL, b int, c nvarchar(max))")
    assert session.view("sys.indexes", "name, index_id, type_desc") == [(None, 0, "HEAP")]
    session.run("CREATE UNIQUE NONCLUSTERED INDEX ux ON dbo.t (b DESC) INCLUDE (c) WITH (DATA_COMPRESSION = PAGE)")
    session.run("CREATE CLUSTERED COLUMNSTORE INDEX cci ON dbo.t")
    assert session.view("sys.indexes", "index_id, name, type_desc, is_unique") == [
        (1, "cci", "CLUSTERED COLUMNSTORE", 0),
        (2, "ux", "NONCLUSTERED", 1),
    ]
    keys = session.view("sys.index_columns", "index_id, column_id, key_ordinal, is_descending_key, is_included_column")
    assert [key for key in keys if key[0] == 2] == [(2, 2, 1, 1, 0), (2, 3, 0, 0, 1)]
    assert (2, "PAGE") in session.view("sys.partitions", "index_id, data_compression_desc")
    session.run("DROP INDEX cci ON dbo.t, ux ON dbo.t")
    assert session.view("sys.indexes", "name") == [(None,)]


def test_a_duplicate_stops_a_unique_index(session: Session) -> None:
    session.run("CREATE TABLE dbo.t (a int)")
    session.connection.execute(f"insert into {session.table('dbo.t').relation} values (7), (7)".encode())
    assert session.refused("CREATE UNIQUE INDEX ux ON dbo.t (a)") == 1505


def test_names_are_found_without_case_and_renamed_without_touching_the_rows(session: Session) -> None:
    session.run("CREATE TABLE dbo.[Long name with ]] in it] (a int CONSTRAINT pk_a PRIMARY KEY)")
    table = session.table("DBO.long NAME with ] in it")
    session.ddl.rename("[dbo].[Long name with ]] in it]", "[odd].name", None, session.context())
    session.ddl.rename("dbo.[[odd]].name].pk_a", "pk_b", "INDEX", session.context())
    session.ddl.rename("dbo.[[odd]].name].a", "b", "COLUMN", session.context())
    (name, object_id), *_ = session.view("sys.tables", "name, object_id")
    assert (name, object_id) == ("[odd].name", table.object_id)
    assert session.view("sys.key_constraints", "name") == [("pk_b",)]
    assert session.view("sys.columns", "name") == [("b",)]


def test_alter_table_adds_and_drops_columns(session: Session) -> None:
    session.run("CREATE TABLE dbo.t (a int)")
    relation = session.table("dbo.t").relation
    session.connection.execute(f"insert into {relation} values (1)".encode())
    session.run("ALTER TABLE dbo.t ADD b int NULL, c varchar(5) NULL")
    session.run("ALTER TABLE dbo.t DROP COLUMN b")
    session.run("ALTER TABLE dbo.t ADD d int NULL")
    assert [(c.name, c.column_id) for c in session.table("dbo.t").columns] == [("a", 1), ("c", 3), ("d", 4)]
    assert session.refused("ALTER TABLE dbo.t ADD e int NOT NULL") == 4901


def test_a_rolled_back_table_is_not_found_by_a_later_lookup(session: Session) -> None:
    session.connection.execute("savepoint here")
    session.run("CREATE TABLE dbo.t (a int)")
    assert session.resolve("dbo.t") is not None
    session.connection.execute("rollback to here")
    assert session.resolve("dbo.t") is None
    session.run("CREATE TABLE dbo.t (b int)")
    assert [column.name for column in session.table("dbo.t").columns] == ["b"]


def test_identity_counts_from_its_seed(session: Session) -> None:
    session.run("CREATE TABLE dbo.t (a bigint IDENTITY(100, 10) NOT NULL, b int)")
    relation = session.table("dbo.t").relation
    session.connection.execute(f"insert into {relation} (c2) values (1), (2)".encode())
    assert session.rows(f"select c1 from {relation} order by c1") == [(100,), (110,)]
    assert session.view("sys.identity_columns", "name, last_value") == [("a", 110)]
    assert session.value("select sys.ident_current('dbo.t')") == 110
    session.run("TRUNCATE TABLE dbo.t")
    session.connection.execute(f"insert into {relation} (c2) values (1)".encode())
    assert session.rows(f"select c1 from {relation}") == [(100,)]


def test_rowversion_changes_with_every_update(session: Session) -> None:
    session.run("CREATE TABLE dbo.t (a int, v rowversion)")
    relation = session.table("dbo.t").relation
    session.connection.execute(f"insert into {relation} (c1) values (1)".encode())
    first = session.value(f"select c2 from {relation}")
    session.connection.execute(f"update {relation} set c1 = 2".encode())
    assert session.value(f"select c2 from {relation}") > first


def test_dropping_an_object_forgets_what_was_granted_on_it(writer: Session) -> None:
    writer.run("CREATE TABLE dbo.t (a int PRIMARY KEY)")
    writer.run("GRANT SELECT ON dbo.t TO writer")
    writer.run("DROP TABLE IF EXISTS dbo.t, dbo.absent")
    assert writer.view("sys.database_permissions", "class, permission_name").count((1, "SELECT")) == 0
    assert writer.view("sys.objects", "name") == []


def test_a_check_belongs_to_the_column_when_it_names_only_one(session: Session) -> None:
    session.run(
        "CREATE TABLE dbo.t (a int CONSTRAINT ck_1 CHECK (a > 0), b varchar(5), c int,"
        " CONSTRAINT ck_2 CHECK (b IN ('x', 'y')), CONSTRAINT ck_3 CHECK (c BETWEEN a AND 10))"
    )
    assert session.view("sys.check_constraints", "name, parent_column_id, definition, uses_database_collation") == [
        ("ck_1", 1, "([a]>(0))", 0),
        ("ck_2", 2, "([b]='y' OR [b]='x')", 1),
        ("ck_3", 0, "([c]>=[a] AND [c]<=(10))", 0),
    ]
    assert session.refused("CREATE TABLE dbo.u (a int CHECK (b > 0), b int)") == 8141


def test_checks_are_enforced_switched_off_and_trusted_again(session: Session) -> None:
    session.run("CREATE TABLE dbo.t (a int, CONSTRAINT ck CHECK (a > 0))")
    relation = session.table("dbo.t").relation
    with pytest.raises(psycopg.errors.CheckViolation), session.connection.transaction():
        session.connection.execute(f"insert into {relation} values (-1)".encode())
    session.run("ALTER TABLE dbo.t NOCHECK CONSTRAINT ALL")
    session.connection.execute(f"insert into {relation} values (-1), (null)".encode())
    assert session.view("sys.check_constraints", "is_disabled, is_not_trusted") == [(1, 1)]
    assert session.refused("ALTER TABLE dbo.t WITH CHECK CHECK CONSTRAINT ck") == 547
    session.run("ALTER TABLE dbo.t CHECK CONSTRAINT ck")
    assert session.view("sys.check_constraints", "is_disabled, is_not_trusted") == [(0, 1)]
    assert session.refused("ALTER TABLE dbo.t ADD CONSTRAINT ck2 CHECK (a > 5)") == 547
    session.run("ALTER TABLE dbo.t WITH NOCHECK ADD CONSTRAINT ck2 CHECK (a > 5)")


def test_defaults_and_computed_columns(session: Session) -> None:
    session.run(
        "CREATE TABLE dbo.t (a int CONSTRAINT df DEFAULT ((5)), b AS (a * 2) PERSISTED, c AS a + 1,"
        " d datetime2(7) NOT NULL DEFAULT SYSUTCDATETIME())"
    )
    relation = session.table("dbo.t").relation
    session.connection.execute(f"insert into {relation} default values".encode())
    assert session.rows(f"select c1, c2, c3, c4 > 0 from {relation}") == [(5, 10, 6, True)]
    assert ("df", "((5))", 0) in session.view("sys.default_constraints", "name, definition, is_system_named")
    assert session.view("sys.computed_columns", "name, is_persisted") == [("b", 1), ("c", 0)]
    session.run("ALTER TABLE dbo.t ADD e varchar(3) NOT NULL CONSTRAINT df_e DEFAULT 'x'")
    assert session.rows(f"select c5 from {relation}") == [("x",)]
    session.run("ALTER TABLE dbo.t DROP CONSTRAINT df_e, CONSTRAINT df")
    assert len(session.view("sys.default_constraints", "name")) == 1


def test_alter_column_converts_the_values(session: Session) -> None:
    session.run("CREATE TABLE dbo.t (a varchar(10) NULL, b int NOT NULL PRIMARY KEY)")
    relation = session.table("dbo.t").relation
    session.connection.execute(f"insert into {relation} values ('12', 1)".encode())
    session.run("ALTER TABLE dbo.t ALTER COLUMN a int NOT NULL")
    assert session.rows(f"select c1 from {relation}") == [(12,)]
    assert session.table("dbo.t").columns[0].type == SqlType("int", nullable=False)
    assert session.refused("ALTER TABLE dbo.t ALTER COLUMN b bigint NOT NULL") == 5074


def test_unique_keys_follow_the_collation(session: Session) -> None:
    session.run(
        "CREATE TABLE dbo.t (a nvarchar(10) NOT NULL UNIQUE, b varchar(10) COLLATE Latin1_General_100_BIN2 NOT NULL UNIQUE)"
    )
    relation = session.table("dbo.t").relation
    session.connection.execute(f"insert into {relation} values ('Ab', 'Ab')".encode())
    for row in (("aB ", "x"), ("x", "Ab ")):
        with pytest.raises(psycopg.errors.UniqueViolation), session.connection.transaction():
            session.connection.execute(f"insert into {relation} values (%s, %s)".encode(), row)
    session.connection.execute(f"insert into {relation} values ('other', 'aB')".encode())


def test_a_filtered_unique_index_holds_for_its_rows_only(session: Session) -> None:
    session.run("CREATE TABLE dbo.t (phase varchar(20), owner int)")
    session.run("CREATE UNIQUE NONCLUSTERED INDEX ux ON dbo.t (owner) WHERE [phase]='qualification'")
    assert session.view("sys.indexes", "name, has_filter, filter_definition")[0] == (
        "ux",
        1,
        "([phase]='qualification')",
    )
    relation = session.table("dbo.t").relation
    session.connection.execute(f"insert into {relation} values ('a', 1), ('b', 1), ('qualification', 1)".encode())
    with pytest.raises(psycopg.errors.UniqueViolation), session.connection.transaction():
        session.connection.execute(f"insert into {relation} values ('QUALIFICATION', 1)".encode())


def test_the_shape_of_a_local_table(session: Session) -> None:
    info, create = session.ddl.describe_table(
        "@t", "(a int NOT NULL PRIMARY KEY, b nvarchar(5) DEFAULT N'x', c int CHECK (c > 0))", "v1", session.context()
    )
    session.connection.execute(create.encode())
    session.connection.execute(f"insert into {info.relation} (c1, c3) values (1, 1)".encode())
    assert session.rows(f"select c1, c2, c3 from {info.relation}") == [(1, "x", 1)]
    assert [(c.name, c.type.nullable, c.has_default) for c in info.columns] == [
        ("a", False, False), ("b", True, True), ("c", True, False),
    ]  # fmt: skip
    with pytest.raises(psycopg.errors.UniqueViolation), session.connection.transaction():
        session.connection.execute(f"insert into {info.relation} (c1) values (1)".encode())


def test_select_into_makes_a_table_of_the_columns(session: Session) -> None:
    session.run("CREATE TABLE dbo.t (a int IDENTITY NOT NULL, b nvarchar(5) COLLATE Latin1_General_100_BIN2)")
    source = session.table("dbo.t")
    made = session.ddl.create_table_as(["dbo", "copy"], source.columns, session.context())
    assert [(c.name, c.type, c.identity) for c in made.columns] == [
        (c.name, c.type, c.identity) for c in source.columns
    ]


def test_a_clustered_columnstore_index_follows_the_columns(session: Session) -> None:
    session.run("CREATE TABLE dbo.t (a int, b varchar(5))")
    session.run("CREATE CLUSTERED COLUMNSTORE INDEX cci ON dbo.t")
    session.run("ALTER TABLE dbo.t ADD c int NULL")
    session.run("ALTER TABLE dbo.t ALTER COLUMN b varchar(20) NULL")
    session.run("ALTER TABLE dbo.t DROP COLUMN a")
    assert session.view("sys.index_columns", "column_id, key_ordinal, is_included_column") == [(2, 0, 1), (3, 0, 1)]
