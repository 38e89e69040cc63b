"""What the four rooms of the emulation know of each other.

wire (TDS)  ->  session (batches, control flow, transactions)  ->  compile (T-SQL to PostgreSQL)  ->  catalog (names, types, rights)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tsqldev.errors import SqlError
from tsqldev.types import SqlType


@dataclass(frozen=True, slots=True)
class Column:
    """A result column, or a table column where the last four members matter."""

    name: str
    type: SqlType
    identity: bool = False
    computed: bool = False
    column_id: int = 0
    has_default: bool = False


# ---- wire and session -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoginRequest:
    user: str
    password: str = field(repr=False)
    database: str
    application: str
    host: str
    client_library: str
    client_pid: int
    language: str
    read_only_intent: bool
    packet_size: int
    encrypted: bool = False


@dataclass(frozen=True, slots=True)
class RpcParameter:
    """A decoded RPC parameter: the value is in the representation of `tsqldev.types`. A table-valued one is refused."""

    name: str
    type: SqlType
    value: object
    output: bool = False
    default: bool = False


class ResultSink(Protocol):
    """Where a request's results go, in order. The wire turns the calls into tokens and knows about MORE bits.

    With `uuid_bytes`, the rows may hold a uniqueidentifier as the sixteen bytes that a UUID has.
    """

    uuid_bytes: bool

    def columns(self, columns: Sequence[Column]) -> None: ...
    def rows(self, rows: Iterable[Sequence[object]]) -> None: ...
    def done(self, count: int | None, *, command: str = "") -> None:
        """One statement ended. `count` is None where SQL Server sends no row count (SET NOCOUNT ON, DDL, SET...)."""

    def info(self, number: int, message: str, *, severity: int = 0, state: int = 1, line: int = 1) -> None: ...
    def error(self, error: SqlError) -> None: ...
    def enter_module(self) -> None:
        """EXEC of a procedure starts: statements until `leave_module` end with DONEINPROC."""

    def leave_module(self, status: int) -> None: ...
    def return_value(self, name: str, type: SqlType, value: object) -> None: ...
    def database_changed(self, new: str, old: str) -> None: ...
    def transaction_began(self, descriptor: int) -> None: ...
    def transaction_committed(self, descriptor: int) -> None: ...
    def transaction_rolled_back(self, descriptor: int) -> None: ...


class Session(Protocol):
    """One logged-in connection. Requests arrive one at a time; `attention` comes from another thread."""

    spid: int

    @property
    def database(self) -> str:
        """The current database: USE changes it."""

    def batch(self, sql: str, sink: ResultSink) -> None: ...
    def rpc(self, name: str | int, parameters: Sequence[RpcParameter], sink: ResultSink) -> int:
        """Run a procedure by name, or by number for the well-known ones (sp_executesql = 10 ...). Returns the status."""

    def begin_transaction(self, name: str, isolation: int, sink: ResultSink) -> None: ...
    def commit_transaction(self, name: str, begin_again: bool, isolation: int, sink: ResultSink) -> None: ...
    def rollback_transaction(self, name: str, begin_again: bool, isolation: int, sink: ResultSink) -> None: ...
    def save_transaction(self, name: str, sink: ResultSink) -> None: ...
    def transaction_descriptor(self) -> int:
        """Non-zero while a transaction is open."""

    def bulk_load(self, columns: Sequence[Column], rows: Iterator[Sequence[object]], sink: ResultSink) -> None:
        """The rows that follow an INSERT BULK batch, into the table that the batch named."""

    def reset(self, keep_transaction: bool) -> None:
        """sp_reset_connection: what the RESETCONNECTION bit of a packet asks for."""

    def attention(self) -> None: ...
    def close(self) -> None:
        """The client is gone, or was killed: roll back, release everything. Called exactly once, from the serving thread."""


class Engine(Protocol):
    def login(self, request: LoginRequest, disconnect: Callable[[], None]) -> tuple[Session, list[tuple[int, str]]]:
        """Authenticate, fire the LOGON trigger, and answer the session with info messages (number, text) to send.

        Raises SqlError (18456, 18470, 17892, 4060...). `disconnect` closes the client's socket, from any thread (KILL).
        """

    def version(self) -> tuple[int, int, int]:
        """Major, minor, build as in LOGINACK."""


# ---- catalog ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IndexInfo:
    """A whole (not filtered, not disabled) index: the places of its key columns among the table's columns."""

    index_id: int
    unique: bool
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table, table variable, #temp table, or the inserted / deleted of a trigger.

    `relation` is the quoted PostgreSQL name; `physical[i]` the quoted PostgreSQL name of `columns[i]`.
    `system` marks a catalog view or DMV: `relation` is then a parenthesised query or a set-returning call.
    """

    object_id: int
    database: str
    schema: str
    name: str
    relation: str
    columns: tuple[Column, ...]
    physical: tuple[str, ...]
    triggers: tuple[TriggerInfo, ...] = ()
    system: bool = False
    schema_id: int = 0
    owner_id: int = 0
    indexes: tuple[IndexInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class TriggerInfo:
    object_id: int
    name: str
    instead_of: bool
    actions: frozenset[str]  # of INSERT UPDATE DELETE
    disabled: bool


@dataclass(frozen=True, slots=True)
class ViewInfo:
    """A user view: expanded in place at each use, so that names bind as late as SQL Server binds them."""

    object_id: int
    database: str
    schema: str
    name: str
    select: str  # the text after AS
    columns: tuple[Column, ...]
    schema_id: int = 0
    owner_id: int = 0


@dataclass(frozen=True, slots=True)
class ModuleInfo:
    """A procedure or trigger: `definition` is the whole text, byte for byte; `body` what runs, at `body_line` of it."""

    object_id: int
    database: str
    schema: str
    name: str
    kind: str  # PROCEDURE, TRIGGER, LOGON TRIGGER
    definition: str
    body: str
    body_line: int
    parameters: tuple[tuple[Column, str | None, bool], ...] = ()  # (column, default text, output)
    execute_as: str | None = None  # None = CALLER, "OWNER", or a principal's name
    owner_id: int = 0


@dataclass(frozen=True, slots=True)
class ObjectUse:
    """A right that a compiled statement needs. `through` is the owner of the view that names the object, if one does:
    the chain to it then comes from the view, not from the module that runs."""

    permission: str  # SELECT INSERT UPDATE DELETE EXECUTE; CONNECT of another database whose catalog is read
    database: str
    object_id: int
    schema_id: int
    owner_id: int
    through: int | None = None


# ---- compile ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parameter:
    """The value of `$n` in the compiled SQL: a T-SQL variable (`@x`) or a session value (`@@SPID`, `XACT_STATE()`)."""

    name: str
    type: SqlType


# A statement that changes more rows than this locks the whole table, as the server's lock escalation does.
KEYS_LIMIT = 5000


@dataclass(frozen=True, slots=True)
class ReadLock:
    """How a statement locks what it reads of one table of a database.

    `index` and `key` say where it looks: the rows whose leading key columns have these values (PostgreSQL expressions
    over the statement's parameters); an empty key is the whole table. `keep` holds until the transaction ends;
    `absent` keeps rows away that are not there yet; `versioned` is a read that READ_COMMITTED_SNAPSHOT would not lock.
    """

    object_id: int
    database: str
    mode: str  # S U X
    keep: bool = False
    absent: bool = False
    nowait: bool = False
    versioned: bool = False
    index: int = 0
    key: tuple[str, ...] = ()


@dataclass(slots=True)
class Compiled:
    """One T-SQL query, DML statement, expression or condition as PostgreSQL text with `$n` parameters.

    `columns` describe the result set (empty where there is none). `assigns` names the variables that a
    `SELECT @x = ...` fills, column by column. `before` runs first, in the same statement (temporary tables).
    `fires` tells which triggers run after it, with the tables that hold inserted and deleted.
    """

    kind: str  # SELECT INSERT UPDATE DELETE MERGE TRUNCATE EXPRESSION
    sql: str
    parameters: list[Parameter] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)
    assigns: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    uses: list[ObjectUse] = field(default_factory=list)
    fires: list[TriggerFire] = field(default_factory=list)
    target: TableInfo | None = None
    # SELECT ... INTO: the table to create, its columns are `columns`.
    into: str | None = None
    # Where the affected rows cannot be read from the command tag: the last column (before keys) is the count.
    count_in_result: bool = False
    identity_column: str | None = None
    reads: list[ReadLock] = field(default_factory=list)
    # `keyed`: the last columns of the rows are keys of the rows that were changed, `keys` their index and width each.
    keyed: bool = False
    keys: tuple[tuple[int, int], ...] = ()
    # The unique indexes whose keys an UPDATE of more than one row computes from the rows.
    moves: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TriggerFire:
    trigger: TriggerInfo
    action: str
    inserted: TableInfo
    deleted: TableInfo
