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
        # Where the message stands is known: outer scopes keep line and procedure.
        self.located = False
        # The transaction of the failed statement cannot be committed any more (set for what comes out of a trigger).
        self.dooms = False
        # It came from an inner scope, so that a CATCH of this scope sees it even if the scope it arose in could not.
        self.crossed = False
        # "raiserror" or "throw" for an error that a statement raised by itself.
        self.raised = ""


def unsupported(what: str) -> SqlError:
    """The refusal of the closed world: a statement, function, hint, type or option that is not emulated."""
    return SqlError(40000, f"Not supported by this emulation of SQL Server: {what}.")


def nested_too_deeply() -> SqlError:
    """A text that no stack can hold."""
    return SqlError(
        191,
        "Some part of your SQL statement is nested too deeply. Rewrite the query or break it up into smaller queries.",
        severity=15,
    )
