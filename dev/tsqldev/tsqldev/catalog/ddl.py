"""`Ddl`: the one way in for DDL and security statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tsqldev.catalog.access import Access
from tsqldev.catalog.lookup import Catalog, Connection
from tsqldev.catalog.statement import DdlContext, Statement
from tsqldev.catalog.tokens import END, WORD, Token, tokenize
from tsqldev.errors import SqlError, unsupported

Handler = Callable[[Statement], None]

# The words after which no one else's statement begins.
FIRST_WORDS = frozenset({"CREATE", "ALTER", "DROP", "GRANT", "DENY", "REVOKE", "TRUNCATE", "ENABLE", "DISABLE"})

HANDLERS: Mapping[tuple[str, ...], Handler] = {}


class Ddl:
    """Runs statements over the session's connection, in its transaction; it neither begins nor ends one."""

    def __init__(self, connection: Connection, catalog: Catalog, access: Access) -> None:
        self.connection = connection
        self.catalog = catalog
        self.access = access

    @staticmethod
    def handles(first_word: str) -> bool:
        return first_word.upper() in FIRST_WORDS

    def execute(self, text: str, context: DdlContext) -> None:
        """Run one statement. Raises SqlError; messages for the client are in `context.information`."""
        statement = Statement(self.connection, self.catalog, self.access, text, context)
        handler = _handler(statement.read.tokens)
        handler(statement)


def _handler(tokens: list[Token]) -> Handler:
    words = [token.value for token in tokens[:6] if token.kind == WORD]
    for count in range(min(4, len(words)), 0, -1):
        handler = HANDLERS.get(tuple(words[:count]))
        if handler is not None:
            return handler
    if not words or tokens[0].kind == END:
        raise SqlError(102, "Incorrect syntax near ''.", severity=15)
    raise unsupported("the statement " + " ".join(words[:3]))
