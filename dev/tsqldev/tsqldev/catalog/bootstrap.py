"""The metadata of an empty server: databases, sa, fixed roles, built-in permissions."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import Any

import psycopg

from tsqldev.catalog.passwords import hash_password
from tsqldev.catalog.permissions import CLASS_ID, FIXED_DATABASE_ROLES, FIXED_SERVER_ROLES, PERMISSIONS
from tsqldev.catalog.sysviews import declared
from tsqldev.compile.compiler import functions_sql
from tsqldev.types import DEFAULT_COLLATION

Connection = psycopg.Connection[Any]

SYSTEM_DATABASES = ("master", "tempdb", "model", "msdb")

SA, PUBLIC_SERVER = 1, 2
SERVER_ROLES = tuple(FIXED_SERVER_ROLES)  # ids from 3, in this order

PUBLIC, DBO, GUEST, INFORMATION_SCHEMA, SYS = range(5)
DATABASE_ROLES = {
    "db_owner": 16384,
    "db_accessadmin": 16385,
    "db_securityadmin": 16386,
    "db_ddladmin": 16387,
    "db_backupoperator": 16389,
    "db_datareader": 16390,
    "db_datawriter": 16391,
    "db_denydatareader": 16392,
    "db_denydatawriter": 16393,
}

# (id, name, value, minimum, maximum, description, dynamic, advanced)
CONFIGURATIONS = (
    (101, "recovery interval (min)", 0, 0, 32767, "Maximum recovery interval in minutes", True, True),
    (103, "user connections", 0, 0, 32767, "Number of user connections allowed", False, True),
    (115, "nested triggers", 1, 0, 1, "Allow triggers to be invoked within triggers", True, False),
    (400, "cross db ownership chaining", 0, 0, 1, "Allow cross db ownership chaining", True, False),
    (518, "show advanced options", 0, 0, 1, "show advanced options", True, False),
    (1539, "max degree of parallelism", 0, 0, 32767, "maximum degree of parallelism", True, True),
    (1562, "clr enabled", 0, 0, 1, "CLR user code execution enabled in the server", True, False),
    (1568, "default trace enabled", 1, 0, 1, "Enable or disable the default trace", True, True),
    (1587, "clr strict security", 1, 0, 1, "CLR strict security enabled in the server", True, True),
    (16384, "Agent XPs", 0, 0, 1, "Enable or disable Agent XPs", True, True),
    (16390, "xp_cmdshell", 0, 0, 1, "Enable or disable command shell", True, True),
    (16391, "Ad Hoc Distributed Queries", 0, 0, 1, "Enable or disable Ad Hoc Distributed Queries", True, True),
)


def bootstrap(connection: Connection, sa_password: str) -> None:
    """Create the metadata of a new server, or, where it exists already, only give `sa` its password.

    Raises MadeByAnother where the metadata is that of another version of this package.
    """
    with connection.transaction():
        if not _exists(connection, "meta.version"):
            _create(connection)
        else:
            made_by = None
            if _exists(connection, "meta.made_by"):
                made_by = connection.execute("select scripts from meta.made_by").fetchone()
            if made_by is None or made_by[0] != _scripts():
                raise MadeByAnother
            connection.execute(functions_sql().encode())
        connection.execute("delete from meta.system_objects")
        with connection.cursor() as cursor:
            cursor.executemany(
                "insert into meta.system_objects (object_id, schema_name, name, type) values (%s, %s, %s, 'V')",
                [(view.object_id, view.schema, view.name) for view in declared().values()],
            )
        connection.execute(
            "update meta.logins set password_hash = %s where principal_id = 1", (hash_password(sa_password),)
        )
        connection.execute("select meta.bump()")


class MadeByAnother(RuntimeError):
    """The data folder was made by another version of tsqldev, and is not converted. Nothing was changed.

    Start with a new, empty data folder; do not edit the old one.
    """

    def __init__(self) -> None:
        super().__init__(" ".join((MadeByAnother.__doc__ or "").split()))


def _exists(connection: Connection, table: str) -> bool:
    row = connection.execute("select to_regclass(%s) is not null", (table,)).fetchone()
    return row is not None and bool(row[0])


def _scripts() -> str:
    """What names this version of the metadata: the digest of the scripts that make it."""
    text = "".join(sql(name) for name in ("meta.sql", "types.sql", "rights.sql", "functions.sql"))
    return hashlib.sha256(text.encode()).hexdigest()


def sql(name: str) -> str:
    return (files("tsqldev.catalog") / name).read_text(encoding="utf-8")


def _create(connection: Connection) -> None:
    connection.execute(sql("meta.sql").encode())
    connection.execute(functions_sql().encode())
    for name in ("types.sql", "rights.sql", "functions.sql"):
        connection.execute(sql(name).encode())
    connection.execute("insert into meta.made_by (scripts) values (%s)", (_scripts(),))
    _permissions(connection)
    _logins(connection)
    for configuration in CONFIGURATIONS:
        connection.execute(
            "insert into meta.configurations values (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (*configuration[:5], configuration[2], *configuration[5:]),
        )
    for number, name in enumerate(SYSTEM_DATABASES, 1):
        connection.execute("select nextval('meta.database_ids')")
        create_database(connection, number, name, DEFAULT_COLLATION, b"\x01")


def _permissions(connection: Connection) -> None:
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into meta.builtin_permissions values (%s, %s, %s, %s, %s, %s, %s)",
            [
                (
                    CLASS_ID[p.class_desc],
                    p.class_desc,
                    p.name,
                    p.type,
                    p.covering,
                    CLASS_ID[p.parent_class] if p.parent_class else None,
                    p.parent_covering,
                )
                for p in PERMISSIONS
            ],
        )
        rights = {(p.class_desc, p.name): p for p in PERMISSIONS}
        closure: set[tuple[str, str, str, int, str]] = set()
        for start in PERMISSIONS:
            waiting = [(start.class_desc, start.name)]
            while waiting:
                at = waiting.pop()
                row = (start.class_desc, start.name, at[0], CLASS_ID[at[0]], at[1])
                if row in closure:
                    continue
                closure.add(row)
                here = rights[at]
                if here.covering:
                    waiting.append((here.class_desc, here.covering))
                if here.parent_class and here.parent_covering:
                    waiting.append((here.parent_class, here.parent_covering))
        cursor.executemany("insert into meta.permission_closure values (%s, %s, %s, %s, %s)", sorted(closure))
        fixed: list[tuple[bool, int, str, str]] = []
        for role, (granted, denied) in FIXED_DATABASE_ROLES.items():
            fixed += [(True, DATABASE_ROLES[role], name, "G") for name in granted]
            fixed += [(True, DATABASE_ROLES[role], name, "D") for name in denied]
        for number, granted in enumerate(FIXED_SERVER_ROLES.values(), 3):
            fixed += [(False, number, name, "G") for name in granted]
        cursor.executemany("insert into meta.fixed_role_permissions values (%s, %s, %s, %s)", fixed)


def _logins(connection: Connection) -> None:
    insert = (
        "insert into meta.logins (principal_id, name, type, sid, is_fixed_role, owning_principal_id, default_database,"
        " default_language) values (%s, %s, %s, %s, %s, %s, %s, %s)"
    )
    connection.execute(insert, (SA, "sa", "S", b"\x01", False, None, "master", "us_english"))
    connection.execute(insert, (PUBLIC_SERVER, "public", "R", b"\x02", False, 1, None, None))
    for number, role in enumerate(SERVER_ROLES, 3):
        connection.execute(insert, (number, role, "R", bytes([number]), True, 1, None, None))
    connection.execute("insert into meta.role_members values (0, 3, 1)")
    grant = "insert into meta.permissions values (0, %s, %s, 0, %s, 1, %s, 'G')"
    connection.execute(grant, (100, 0, SA, "CONNECT SQL"))
    connection.execute(grant, (100, 0, PUBLIC_SERVER, "VIEW ANY DATABASE"))
    for endpoint in (2, 3, 4, 5):
        connection.execute(grant, (105, endpoint, PUBLIC_SERVER, "CONNECT"))


def role_sid(name: str) -> bytes:
    """A SID for a database role or a user without login: stable for the name, shaped as SQL Server's (S-1-9-3-...)."""
    return bytes.fromhex("010500000000000903000000") + hashlib.sha256(name.encode()).digest()[:16]


def create_database(connection: Connection, number: int, name: str, collation: str, owner_sid: bytes) -> None:
    for kind in ("schema_ids", "principal_ids"):
        connection.execute(f"create sequence meta.{kind}_{number} as int start 5 maxvalue 16383".encode())
    connection.execute(
        "insert into meta.databases (database_id, name, collation_name, owner_sid) values (%s, %s, %s, %s)",
        (number, name, collation, owner_sid),
    )
    insert = (
        "insert into meta.principals (database_id, principal_id, name, type, default_schema, sid, owning_principal_id,"
        " is_fixed_role, authentication_type) values (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
    )
    # public's SID is the one that every database of SQL Server has.
    public_sid = bytes.fromhex("01050000000000090400000083741B006749C04BA943C02702F2A762")
    connection.execute(insert, (number, PUBLIC, "public", "R", None, public_sid, DBO, False, 0))
    connection.execute(insert, (number, DBO, "dbo", "S", "dbo", owner_sid, None, False, 1))
    connection.execute(insert, (number, GUEST, "guest", "S", "guest", b"\x00", None, False, 0))
    connection.execute(insert, (number, INFORMATION_SCHEMA, "INFORMATION_SCHEMA", "S", None, None, None, False, 0))
    connection.execute(insert, (number, SYS, "sys", "S", None, None, None, False, 0))
    for role, principal_id in DATABASE_ROLES.items():
        sid = bytes.fromhex("01050000000000090400000000000000000000000000000000") + principal_id.to_bytes(4, "little")
        connection.execute(insert, (number, principal_id, role, "R", None, sid[:28], DBO, True, 0))
    schemas = {"dbo": DBO, "guest": GUEST, "INFORMATION_SCHEMA": INFORMATION_SCHEMA, "sys": SYS, **DATABASE_ROLES}
    for schema, owner in schemas.items():
        connection.execute("insert into meta.schemas values (%s, %s, %s, default, %s)", (number, owner, schema, owner))
    grant = "insert into meta.permissions values (%s, 0, 0, 0, %s, 1, %s, 'G')"
    connection.execute(grant, (number, DBO, "CONNECT"))
    for permission in ("VIEW ANY COLUMN ENCRYPTION KEY DEFINITION", "VIEW ANY COLUMN MASTER KEY DEFINITION"):
        connection.execute(grant, (number, PUBLIC, permission))
    if number in (1, 2, 4):
        connection.execute(grant, (number, GUEST, "CONNECT"))
    connection.execute("insert into meta.role_members values (%s, %s, %s)", (number, DATABASE_ROLES["db_owner"], DBO))
