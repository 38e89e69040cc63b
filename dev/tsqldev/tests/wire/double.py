"""A double of the engine for tests of the wire alone: it knows a few words, and answers them with fixed typed rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from uuid import UUID

from tsqldev.errors import SqlError
from tsqldev.interfaces import Column, LoginRequest, ResultSink, RpcParameter, Session
from tsqldev.types import INT, MAX, SqlType, nvarchar, varbinary, varchar

PASSWORD = "pässwörd;{}'="
DAY = 864_000_000_000
_1900 = 693_595
_D = 738_000  # 2021-07-30

# One value of each type, as tsqldev.types holds it; the tests state what clients must make of them.
TYPED: list[tuple[str, SqlType, object]] = [
    ("bit", SqlType("bit"), 1),
    ("tinyint", SqlType("tinyint"), 255),
    ("smallint", SqlType("smallint"), -32768),
    ("int", SqlType("int"), -2147483648),
    ("bigint", SqlType("bigint"), 9223372036854775807),
    ("decimal38", SqlType("decimal", precision=38, scale=10), Decimal("-1234567890123456789012345678.0123456789")),
    ("decimal9", SqlType("decimal", precision=9, scale=2), Decimal("1234567.89")),
    ("numeric19", SqlType("numeric", precision=19, scale=0), Decimal("9999999999999999999")),
    ("money", SqlType("money"), Decimal("-922337203685477.5808")),
    ("smallmoney", SqlType("smallmoney"), Decimal("214748.3647")),
    ("real", SqlType("real"), 0.5),
    ("float", SqlType("float"), -1.5e300),
    ("date", SqlType("date"), _D),
    ("time7", SqlType("time", scale=7), DAY - 1),
    ("time0", SqlType("time", scale=0), 3_600 * 10_000_000),
    ("datetime2_7", SqlType("datetime2", scale=7), _D * DAY + 1_234_567),
    ("datetime2_3", SqlType("datetime2", scale=3), _D * DAY + 1_230_000),
    ("dto", SqlType("datetimeoffset", scale=7), Decimal(((_D * DAY + 1_234_567) << 12) + 2048 + 330)),
    ("datetime", SqlType("datetime"), (_D - _1900) * 25_920_000 + 300 * 3600 + 1),
    ("smalldatetime", SqlType("smalldatetime"), (_D - _1900) * 1440 + 61),
    ("guid", SqlType("uniqueidentifier"), UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff")),
    ("char5", SqlType("char", length=5, collation="SQL_Latin1_General_CP1_CI_AS"), "ab"),
    ("varchar", varchar(20), "naïve €"),
    ("varchar_max", varchar(MAX), "v" * 9000),
    ("nchar3", SqlType("nchar", length=3, collation="SQL_Latin1_General_CP1_CI_AS"), "Ж"),
    ("nvarchar", nvarchar(20), "日本 🎉"),
    ("nvarchar_max", nvarchar(MAX), "Ж" * 40_000),
    ("binary4", SqlType("binary", length=4), b"\x01\x02"),
    ("varbinary", varbinary(10), b"\x00\xff"),
    ("varbinary_max", varbinary(MAX), bytes(range(256)) * 1000),
    ("rowversion", SqlType("rowversion"), 2001),
    ("sysname", SqlType("sysname", length=128, collation="SQL_Latin1_General_CP1_CI_AS"), "sys"),
    ("empty", nvarchar(MAX), ""),
]


@dataclass
class Double:
    """The engine. `closed` counts closed sessions, `loaded` holds bulk rows, `calls` the procedure calls seen."""

    closed: int = 0
    loaded: list[tuple[object, ...]] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)
    calls: list[tuple[str | int, list[RpcParameter]]] = field(default_factory=list)
    requests: list[LoginRequest] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    rows: int = 100_000

    def version(self) -> tuple[int, int, int]:
        return 16, 0, 1000

    def login(self, request: LoginRequest, disconnect: Callable[[], None]) -> tuple[Session, list[tuple[int, str]]]:
        self.requests.append(request)
        if request.password != PASSWORD:
            raise SqlError(18456, f"Login failed for user '{request.user}'.", severity=14)
        return DoubleSession(self, disconnect), []


class DoubleSession:
    def __init__(self, engine: Double, disconnect: Callable[[], None]) -> None:
        self.spid = 51
        self.database = "master"
        self._engine = engine
        self._disconnect = disconnect
        self._stop = threading.Event()
        self._open = 0

    def batch(self, sql: str, sink: ResultSink) -> None:
        self._stop.clear()
        for statement in sql.split(";"):
            self._statement(statement.strip(), sink)

    def _statement(self, words: str, sink: ResultSink) -> None:
        match words.split():
            case ["types"]:
                self._select([Column(n, t) for n, t, _ in TYPED], [[v for _, _, v in TYPED]], sink)
            case ["nulls"]:
                self._select([Column(n, t) for n, t, _ in TYPED], [[None] * len(TYPED)], sink)
            case ["rows", count] if _is_number(count):
                self._select([Column("n", INT), Column("t", nvarchar(50))], self._rows(int(count)), sink)
            case ["mixed", count] if _is_number(count):
                columns = [Column(n, t) for n, t, _ in MIXED]
                row = [v for _, _, v in MIXED]
                self._select(columns, (row for _ in range(int(count))), sink)
            case ["fail", number] if _is_number(number):
                sink.error(SqlError(int(number), f"Error {number}.", state=3, line=7, procedure="p"))
                sink.done(None)
            case ["count", number] if _is_number(number):
                sink.done(int(number), command="INSERT")
            case ["print", text]:
                sink.info(0, text)
                sink.done(None)
            case ["wait"]:
                self._stop.wait(30)
                self._engine.events.append("waited")
            case ["use", name]:
                old, self.database = self.database, name
                sink.database_changed(name, old)
                sink.done(None)
            case ["die"]:
                raise SqlError(
                    596, "Cannot continue the execution because the session is in the kill state.", severity=21
                )
            case ["bug"]:
                raise ZeroDivisionError
            case ["insert", "bulk", *_]:
                sink.done(None)
            case _:
                sink.done(None)

    def _select(self, columns: list[Column], rows: object, sink: ResultSink) -> None:
        count = 0

        def counted() -> Iterator[Sequence[object]]:
            nonlocal count
            for row in rows:  # type: ignore[attr-defined]  # a script
                count += 1
                yield row

        sink.columns(columns)
        sink.rows(counted())
        sink.done(count, command="SELECT")

    def _rows(self, count: int) -> Iterator[Sequence[object]]:
        for n in range(count):
            yield (n, f"row {n}")

    def rpc(self, name: str | int, parameters: Sequence[RpcParameter], sink: ResultSink) -> int:
        self._engine.calls.append((name, list(parameters)))
        if name in (10, "sp_executesql"):
            self.batch(str(parameters[0].value), sink)
            return 0
        for parameter in parameters:
            if parameter.output:
                sink.return_value(parameter.name, parameter.type, parameter.value)
        sink.done(None)
        return 7

    def begin_transaction(self, name: str, isolation: int, sink: ResultSink) -> None:
        self._open = 42
        self._engine.events.append("begin")
        sink.transaction_began(42)

    def commit_transaction(self, name: str, begin_again: bool, isolation: int, sink: ResultSink) -> None:
        self._engine.events.append("commit")
        sink.transaction_committed(42)
        self._open = 0
        if begin_again:
            self.begin_transaction(name, isolation, sink)

    def rollback_transaction(self, name: str, begin_again: bool, isolation: int, sink: ResultSink) -> None:
        self._engine.events.append("rollback")
        sink.transaction_rolled_back(42)
        self._open = 0
        if begin_again:
            self.begin_transaction(name, isolation, sink)

    def save_transaction(self, name: str, sink: ResultSink) -> None:
        self._engine.events.append(f"save {name}")

    def transaction_descriptor(self) -> int:
        return self._open

    def bulk_load(self, columns: Sequence[Column], rows: Iterator[Sequence[object]], sink: ResultSink) -> None:
        self._engine.columns = list(columns)
        self._engine.loaded = [tuple(row) for row in rows]
        sink.done(len(self._engine.loaded), command="INSERT")

    def reset(self, keep_transaction: bool) -> None:
        self._engine.events.append("reset")

    def attention(self) -> None:
        self._engine.events.append("attention")
        self._stop.set()

    def close(self) -> None:
        self._engine.closed += 1


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 10


MIXED: list[tuple[str, SqlType, object]] = [
    ("id", SqlType("int", nullable=False), 12345),
    ("big", SqlType("bigint"), 1 << 40),
    ("name", nvarchar(50), "a name of some length"),
    ("code", varchar(20), "ABC-123"),
    ("amount", SqlType("decimal", precision=18, scale=4), Decimal("12345.6789")),
    ("at", SqlType("datetime2", scale=7), _D * DAY + 1_234_567),
    ("ratio", SqlType("float"), 0.25),
    ("guid", SqlType("uniqueidentifier"), UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff")),
]
