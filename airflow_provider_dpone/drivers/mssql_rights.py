"""A right that a standing account lacks, told apart from a server that cannot be reached."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_dpone.contracts.errors import ConfigurationError, GuardError

#: Refused rights (229, 262, 297, 300, 6102, 15007, 15151, 15247) say "permission"; a database that may not be entered
#: is 916. The driver passes the server's text on, and its number not always.
_REFUSED = re.compile(r"(?i)\bpermissions?\b|is not able to access the database")


def right_missing(role: str, step: str, err: BaseException) -> ConfigurationError | None:
    """The error to raise when the server refused ``step`` for want of a right; None when it says something else."""
    said = " ".join(str(err).split())
    if not _REFUSED.search(said):
        return None
    return ConfigurationError(
        "role_right_missing",
        happened=f"{step}: the server refused it to the account of the role {role}: {said[:400]}",
        not_done="the step had no effect.",
        check=f"the rights of the role {role} in docs/roles.md; `dponectl ledger render-grants`, `dponectl ledger"
        " render-group-grants` for the optional groups, and `dponectl target render` print them.",
        avoid=f"give the work of the {role} to another account without saying so in the configuration.",
    )


@contextmanager
def acting_as(role: str, step: str) -> Iterator[None]:
    """Names the role when the server refuses a step for want of a right. Every other error passes as it is."""
    try:
        yield
    except GuardError:
        raise
    except Exception as err:
        if missing := right_missing(role, step, err):
            raise missing from err
        raise
