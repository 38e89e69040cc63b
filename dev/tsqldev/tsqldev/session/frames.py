"""The scopes of running T-SQL: batch, procedure, dynamic batch, trigger; and the ways out of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from tsqldev.errors import SqlError
from tsqldev.interfaces import ModuleInfo, TableInfo, TriggerFire
from tsqldev.types import SqlType

NESTING_LIMIT = 32


class Scope(Enum):
    BATCH = "batch"
    DYNAMIC = "dynamic"
    PROCEDURE = "procedure"
    TRIGGER = "trigger"


@dataclass(slots=True)
class Settings:
    """SET options: those set in a module or dynamic batch end with it."""

    nocount: bool = False
    xact_abort: bool = False
    implicit_transactions: bool = False
    ansi_nulls: bool = True
    ansi_padding: bool = True
    ansi_warnings: bool = True
    ansi_null_dflt_on: bool = True
    arithabort: bool = True
    concat_null_yields_null: bool = True
    quoted_identifier: bool = True
    numeric_roundabort: bool = False
    cursor_close_on_commit: bool = False
    lock_timeout: int = -1
    rowcount: int = 0
    textsize: int = 2147483647
    datefirst: int = 7
    dateformat: str = "mdy"
    language: str = "us_english"
    deadlock_priority: int = 0
    fmtonly: bool = False
    noexec: bool = False
    parseonly: bool = False

    @property
    def options(self) -> int:
        """@@OPTIONS."""
        bits = (
            (2, self.implicit_transactions),
            (4, self.cursor_close_on_commit),
            (8, self.ansi_warnings),
            (16, self.ansi_padding),
            (32, self.ansi_nulls),
            (64, self.arithabort),
            (256, self.quoted_identifier),
            (512, self.nocount),
            (1024, self.ansi_null_dflt_on),
            (4096, self.concat_null_yields_null),
            (8192, self.numeric_roundabort),
            (16384, self.xact_abort),
        )
        return sum(bit for bit, on in bits if on)


@dataclass(slots=True)
class Frame:
    scope: Scope
    database: str
    default_schema: str = "dbo"
    module: ModuleInfo | None = None
    line_offset: int = 0
    variables: dict[str, SqlType] = field(default_factory=dict)
    values: dict[str, object] = field(default_factory=dict)
    tables: dict[str, TableInfo] = field(default_factory=dict)
    fire: TriggerFire | None = None
    updated: frozenset[str] = frozenset()
    event: str = ""
    try_depth: int = 0
    caught: list[SqlError] = field(default_factory=list)
    impersonations: int = 0
    status: int = 0
    scope_identity: object = None
    depth: int = 0

    @property
    def procedure(self) -> str:
        """ERROR_PROCEDURE() and the procedure of a message."""
        return self.module.name if self.module else ""

    @property
    def owner_id(self) -> int | None:
        """Who owns the running module: its uses of objects of the same owner are not checked again."""
        return self.module.owner_id if self.module else None


class Return(Exception):
    """RETURN: leave the frame."""


class Break(Exception):
    """BREAK in a loop."""


class Continue(Exception):
    """CONTINUE in a loop."""


class ScopeAbort(Exception):
    """The frame cannot go on (a missing object, a syntax error); its caller can. The error has been sent."""


class BatchAbort(Exception):
    """The request ends here. The error has been sent."""


class LeaveTrigger(Exception):
    """An error on its way out of a trigger, to the statement that fired it."""

    def __init__(self, error: SqlError) -> None:
        super().__init__(str(error))
        self.error = error


class Attention(Exception):
    """The client cancelled the request."""


class Caught(Exception):
    """An error on its way to the CATCH block of a frame that is `depth` deep or less."""

    def __init__(self, error: SqlError, depth: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.depth = depth


class Disconnect(Exception):
    """Severity 20 and more: the connection ends."""

    def __init__(self, error: SqlError) -> None:
        super().__init__(str(error))
        self.error = error


# After these the whole batch ends and its transaction is rolled back: conversions, deadlock, nesting.
BATCH_ABORTING = frozenset(
    {217, 235, 236, 237, 238, 241, 242, 244, 245, 248, 293, 295, 1205, 3960, 8114, 8169, 9803, 6355, 3617}
)
# After these the scope ends: names that did not resolve and texts that did not parse.
SCOPE_ABORTING = frozenset(
    {102, 103, 105, 110, 111, 113, 121, 134, 137, 139, 141, 156, 170, 195, 201, 205, 206, 207, 208, 209, 213, 257, 319}
    | {1011, 1013, 1087, 4104, 4145, 8117, 8120, 8144, 8145, 8146, 8155, 8156, 10713, 40000}
)
# Severity 13 to 16 whose statement SQL Server ends with message 3621.
TERMINATED = frozenset({515, 547, 2601, 2627, 2628, 8134, 8115, 8152, 220, 232, 3930, 512})
