"""Temporary tables that stay with a PostgreSQL connection, and are emptied when they are used again.

Making and dropping a table costs PostgreSQL more than most statements that use it. The name of such a table says its
shape and its place among the frames, so that another session on the same connection can use it as well.
"""

from __future__ import annotations

# Emptying by DELETE leaves room that only a new table gives back.
_USES = 500
_SESSIONS = 500


class StandingTables:
    """Which tables of one connection there are for certain."""

    def __init__(self) -> None:
        self._uses: dict[str, int] = {}
        # Made in the transaction that runs: a rollback may take them away.
        self._unsure: set[str] = set()
        self._sessions = 0
        #: Tables without such a name were made: they go at the end of the session.
        self.others = False

    def emptying(self, relation: str, create: str) -> str:
        """The statements after which the table is there, without rows."""
        if 0 < self._uses.get(relation, 0) < _USES:
            return f"DELETE FROM {relation}"
        return f"DROP TABLE IF EXISTS {relation};\n{create}"

    def emptied(self, relation: str, *, in_transaction: bool) -> None:
        """PostgreSQL has run them."""
        uses = self._uses.get(relation, 0)
        if not 0 < uses < _USES:
            uses = 0
            if in_transaction:
                self._unsure.add(relation)
        self._uses[relation] = uses + 1

    def rolled_back(self) -> None:
        """PostgreSQL took something back, from a statement to the whole transaction."""
        for relation in self._unsure:
            self._uses.pop(relation, None)
        self._unsure.clear()

    def committed(self) -> None:
        self._unsure.clear()

    def session_ended(self) -> str:
        """The statement that removes what the next session must not find, or nothing."""
        self._sessions += 1
        if not self.others and self._sessions < _SESSIONS:
            return ""
        self._sessions, self.others = 0, False
        self._uses.clear()
        return "DISCARD TEMP; "
