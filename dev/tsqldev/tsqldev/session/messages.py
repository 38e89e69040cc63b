"""PRINT, RAISERROR and THROW: how their texts are made."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tsqldev.errors import SqlError

_DIRECTIVE = re.compile(r"%([-+ 0#]*)(\*|\d+)?(?:\.(\*|\d+))?(h|l|I64)?([diouxXsp%])")

_MESSAGE_LIMIT = 2044


def format_message(template: str, arguments: Sequence[object]) -> str:
    """RAISERROR's and FORMATMESSAGE's printf: %d %i %u %o %x %X %s, flags, width, precision, I64."""
    values = list(arguments)

    def take() -> object:
        if not values:
            raise SqlError(2787, f"Invalid format specification: '{template}'.")
        return values.pop(0)

    def replace(match: re.Match[str]) -> str:
        flags, width, precision, _, kind = match.groups()
        if kind == "%":
            return "%"
        wide = str(take()) if width == "*" else (width or "")
        exact = str(take()) if precision == "*" else precision
        value = take()
        if value is None:
            return "(null)"
        if kind == "s":
            if not isinstance(value, str):
                raise SqlError(
                    2786,
                    "The data type of substitution parameter 1 does not match the expected type of the format "
                    "specification.",
                )
            text = value if exact is None else value[: int(exact)]
            return f"%{flags.replace('0', '')}{wide}s" % text
        if not isinstance(value, int):
            raise SqlError(
                2786,
                "The data type of substitution parameter 1 does not match the expected type of the format "
                "specification.",
            )
        number = value
        if kind in "ouxX" and number < 0:
            number += 1 << 64 if abs(number) > 1 << 31 else 1 << 32
        python = {"i": "d", "u": "d", "p": "X"}.get(kind, kind)
        point = f".{exact}" if exact is not None else ""
        return f"%{flags}{wide}{point}{python}" % number

    text = _DIRECTIVE.sub(replace, template)
    return text if len(text) <= _MESSAGE_LIMIT else text[: _MESSAGE_LIMIT - 3] + "..."


def print_text(text: str | None) -> str:
    """PRINT shows NULL as nothing (one blank on the wire) and at most 8,000 bytes."""
    if text is None:
        return " "
    return text[:4000] or " "
