"""Looking through a tree before it is compiled."""

from __future__ import annotations

from tsqldev.compile import tree as t


def walk(node: object) -> list[object]:
    found = [node]
    if isinstance(node, list | tuple | frozenset):
        for part in node:
            found += walk(part)
    elif hasattr(node, "__dataclass_fields__"):
        for name in node.__dataclass_fields__:
            if name != "pos":
                found += walk(getattr(node, name))
    return found


def has_window(node: object) -> bool:
    return any(isinstance(part, t.Call) and part.over is not None for part in walk(node))


def has_subquery(node: object) -> bool:
    return any(isinstance(part, t.Query) for part in walk(node))


def mentions(node: object, name: str) -> bool:
    wanted = name.casefold()
    return any(
        isinstance(part, t.TableRef) and len(part.parts) == 1 and part.parts[0].casefold() == wanted
        for part in walk(node)
    )
