"""Named trigger points: where a process can be stopped, killed or cut off, to see what becomes of its attempt.

Each step of an attempt that sends something, and waits for what becomes of it, has three points:

    before         nothing of it was sent
    applied        the server has done it, and its reply has not been looked at
    acknowledged   this process knows what became of it

Nothing happens at a point unless code of the same process has armed them: no setting, argument or environment variable
does. `docs/fault-matrix.md` is every point crossed with every fault; a disabled point costs one call and one comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, get_args

Moment = Literal["before", "applied", "acknowledged"]
#: Called with the step and the moment. What it raises is raised at the point.
Hook = Callable[[str, Moment], None]

MOMENTS: tuple[Moment, ...] = get_args(Moment)

#: Every step, in the order in which a life can meet them, and what is sent there. A mutation of the ledger is named as
#: the ledger itself names it; its points stand at its one commit, and "acknowledged" is after the independent readback.
STEPS: Mapping[str, str] = {
    "admit_once": "the commit that admits the try and journals its principals",
    "put_evidence": "the commit of an evidence document, the record taken at admission first",
    "to_ready": "the commit that creates the SQL Server login, its user and its fence, with READY",
    "create_role": "the commit of CREATE ROLE and its membership on PostgreSQL",
    "create_user": "CREATE USER on ClickHouse, which its grants follow",
    "staging_insert": "the streaming INSERT into the ClickHouse staging table",
    "target_commit": "the COMMIT of the target transaction on SQL Server: replacement, fence and marker",
    "snapshot": "the commit of a publication record: PREPARED, EXCHANGE_INTENT, and the verdict",
    "exchange": "the one EXCHANGE TABLES",
    "dbt_build": "the dbt child: before it is started, while it runs, and when it has ended",
    "to_closing": "the commit that closes the LOGON barrier for the login",
    "disable_login": "ALTER LOGIN DISABLE, with a look at the sessions that are left",
    "end_session": "KILL of a session of the closed login",
    "to_closed": "the commit that seals the login, or leaves its tombstone, with its evidence",
    "bar_role": "the commit that bars the PostgreSQL role, or leaves its tombstone",
    "bar_user": "the statements that bar the ClickHouse user and take its rights away",
    "put_quiescence": "the commit of the quiescence observation of the login",
    "read_outcome": "the reading of the outcome, after closure and quiescence",
    "finalize": "the commit that stores the proofs and ends the operation",
    "reconcile_unknown": "the commit that ends a COMMIT_UNKNOWN operation",
}

#: The steps of putting a release in force that write files, which nobody acknowledges; its mutations of the ledger have
#: points as every mutation has, by the ledger's name.
COMPOSITION_STEPS: Mapping[str, str] = {
    "seal": "a deployment folder, written whole beside its place and renamed",
    "copy": "the copy of the release in that folder, before it has its name",
    "note": "the note of an occurrence that has begun",
    "keep_request": "the activation request, before anything of it is used",
    "switch": "the `current` file that tasks read",
    "take_note_away": "the removal of a finished occurrence's note",
}

_hook: Hook | None = None


def reach(step: str, moment: Moment) -> None:
    """Say that the process has come to a point. Does nothing unless somebody armed the points."""
    if _hook is not None:
        _hook(step, moment)


@contextmanager
def armed(hook: Hook) -> Iterator[None]:
    """Call ``hook`` at every point that any thread of this process reaches, until the block ends."""
    global _hook
    before, _hook = _hook, hook
    try:
        yield
    finally:
        _hook = before
