"""The arguments of system procedures, by name or by position."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsqldev.errors import SqlError

if TYPE_CHECKING:
    from tsqldev.session.procedures import Argument


def by_name(arguments: list[Argument], names: tuple[str, ...]) -> dict[str, Argument]:
    """The arguments of a system procedure, by name (without @, lower case) or by position."""
    result: dict[str, Argument] = {}
    for position, argument in enumerate(arguments):
        key = argument.name.lstrip("@").lower()
        if not key:
            if position >= len(names):
                raise SqlError(8144, "Procedure or function has too many arguments specified.", state=2)
            key = names[position]
        if key not in names:
            raise SqlError(8145, f"{argument.name} is not a parameter for this procedure.")
        result[key] = argument
    return result
