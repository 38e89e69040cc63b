"""The one error that leaves the engine: a SQL Server message with its number, severity and state."""

from __future__ import annotations


class SqlError(Exception):
    """A message of severity 11 or more, as a client of SQL Server would receive it.

    `severity` >= 20 ends the connection. `line` is 1-based in the batch or module; `procedure` names the module.
    """

    def __init__(
        self,
        number: int,
        message: str,
        *,
        severity: int = 16,
        state: int = 1,
        line: int = 1,
        procedure: str = "",
    ) -> None:
        super().__init__(f"{number}: {message}")
        self.number = number
        self.message = message
        self.severity = severity
        self.state = state
        self.line = line
        self.procedure = procedure


def unsupported(what: str) -> SqlError:
    """The refusal of the closed world: a statement, function, hint, type or option that is not emulated."""
    return SqlError(40000, f"Not supported by this emulation of SQL Server: {what}.")
