"""Application locks: the resources, modes and results of sp_getapplock, held in the lock table of the process.

A resource is named by database, database principal and text (case-sensitive, cut at 255 characters). A transaction or a
session owns its locks; the same owner may take a resource several times and must release it as often.
"""

from __future__ import annotations

from dataclasses import dataclass

INVALID = -999

MODES = {
    "INTENTSHARED": "IS",
    "SHARED": "S",
    "UPDATE": "U",
    "INTENTEXCLUSIVE": "IX",
    "EXCLUSIVE": "X",
}
MODE_NAMES = {
    "IS": "IntentShared",
    "S": "Shared",
    "U": "Update",
    "IX": "IntentExclusive",
    "SIX": "SharedIntentExclusive",
    "UIX": "UpdateIntentExclusive",
    "X": "Exclusive",
}


@dataclass(frozen=True, slots=True)
class Resource:
    database_id: int
    principal: str
    name: str
