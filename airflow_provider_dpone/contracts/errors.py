"""Every error that the guarded protocol raises, in one tree.

    GuardError                     DPONE_GUARD_ERROR
    ├─ AdmissionRefused            DPONE_COMPOSITION_ADMISSION_UNAVAILABLE   nothing was admitted or changed
    │  ├─ Duplicate                DPONE_ATTEMPT_DUPLICATE                   this try already has its operation
    │  ├─ Overlap                  DPONE_ATTEMPT_OVERLAP                     another operation holds the same data
    │  ├─ StaleEpoch               DPONE_EPOCH_STALE                         the ownership moved on
    │  ├─ ParentNotActive          DPONE_PARENT_NOT_ACTIVE                   the activation is not ACTIVE
    │  └─ AuthorityRefused         DPONE_NONPRODUCTION_AUTHORITY_INVALID     a nonproduction document is not valid
    ├─ OutcomeUnknown              DPONE_OUTCOME_UNKNOWN                     never retry; reconcile
    │  └─ ActivationUnknown        DPONE_COMPOSITION_ACTIVATION_COMMIT_UNKNOWN
    ├─ AttemptFailed               DPONE_ATTEMPT_FAILED                      a proven FAILED outcome
    ├─ Cancelled                   DPONE_CANCELLED                           the task was told to stop
    ├─ Fenced                      DPONE_FENCED                              a newer owner holds the target
    ├─ NotQuiescent                DPONE_NOT_QUIESCENT                       the writer still has sessions
    ├─ GateTampered                DPONE_GATE_TAMPERED                       a gate is not what was journaled
    ├─ LedgerTampered              DPONE_LEDGER_TAMPERED                     the ledger is not what was installed
    ├─ ValueRefused                DPONE_VALUE_REFUSED                       a value would change silently
    ├─ ControlUnavailable          DPONE_CONTROL_UNAVAILABLE                 nothing was sent: safe to retry
    └─ ConfigurationError          DPONE_CONFIGURATION                       fix the configuration first

An error has a stable ``code``, a fixed ``reason`` from a small vocabulary, and four sentences: what happened, what was
not done, what to check and what not to do. Its text starts with ``CODE: reason``. A secret never belongs in one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar


class GuardError(Exception):
    """The protocol stopped. The sentences are class defaults that a raiser may replace with more exact ones."""

    code: ClassVar[str] = "DPONE_GUARD_ERROR"
    #: Whether something outside this process may have changed although the call failed.
    state_may_have_changed: bool = False
    #: Whether a person or a later try has to run a recovery step before this work can go on.
    recovery_required: bool = False
    happened: str = ""
    not_done: str = ""
    check: str = ""
    avoid: str = ""

    def __init__(
        self,
        reason: str,
        *,
        happened: str | None = None,
        not_done: str | None = None,
        check: str | None = None,
        avoid: str | None = None,
        state_may_have_changed: bool | None = None,
        recovery_required: bool | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        self.reason = reason
        if happened is not None:
            self.happened = happened
        if not_done is not None:
            self.not_done = not_done
        if check is not None:
            self.check = check
        if avoid is not None:
            self.avoid = avoid
        if state_may_have_changed is not None:
            self.state_may_have_changed = state_may_have_changed
        if recovery_required is not None:
            self.recovery_required = recovery_required
        self.details: dict[str, object] = dict(details or {})
        super().__init__(self._text())

    def _text(self) -> str:
        lines = [f"{self.code}: {self.reason}"]
        for label, sentence in (
            ("What happened", self.happened),
            ("Not done", self.not_done),
            ("Check", self.check),
            ("Do not", self.avoid),
        ):
            if sentence:
                lines.append(f"{label}: {sentence}")
        if self.state_may_have_changed:
            lines.append("State may have changed.")
        if self.recovery_required:
            lines.append("Recovery is required.")
        return "\n".join(lines)

    def as_document(self) -> dict[str, object]:
        """The machine-readable form that command line and logs print."""
        return {
            "code": self.code,
            "reason": self.reason,
            "state_may_have_changed": self.state_may_have_changed,
            "recovery_required": self.recovery_required,
            **self.details,
        }


class AdmissionRefused(GuardError):
    """An admission was refused before anything was admitted. A bare reason comes from the validation of a record."""

    code = "DPONE_COMPOSITION_ADMISSION_UNAVAILABLE"


class Duplicate(AdmissionRefused):
    """The same try (or a later one of the same task instance) already has its operation in the ledger."""

    code = "DPONE_ATTEMPT_DUPLICATE"
    happened = "an operation with these coordinates is already in the ledger."
    not_done = "nothing was admitted, no credential was issued and the other operation was not touched."
    check = "the operation named here on the attempts page, or with `dponectl attempts show`."
    avoid = "close or finalize the other operation on behalf of this try: its twin may still be working."


class Overlap(AdmissionRefused):
    """Another operation that is RUNNING or COMMIT_UNKNOWN holds one of the same physical guards."""

    code = "DPONE_ATTEMPT_OVERLAP"
    happened = "another operation that is not resolved holds the same data."
    not_done = "nothing was admitted and no credential was issued."
    check = "the blocking operations named here, with `dponectl attempts show`."
    avoid = "end the other operation by its age alone."

    def __init__(self, reason: str = "overlap", *, blockers: Sequence[str] = (), **sentences: str) -> None:
        self.blockers = tuple(blockers)
        happened = sentences.pop("happened", None)
        if happened is None and self.blockers:
            happened = f"{self.happened[:-1]}: {', '.join(self.blockers)}."
        super().__init__(reason, happened=happened, details={"blockers": list(self.blockers)}, **sentences)  # type: ignore[arg-type]  # only sentences pass here


class StaleEpoch(AdmissionRefused):
    """The guard epochs of the attempt are not the current ones of its owner."""

    code = "DPONE_EPOCH_STALE"
    happened = "the ownership of a physical domain has moved on since this work was planned."
    not_done = "nothing was admitted."
    check = "which activation owns the domain now."
    avoid = "rewrite the epochs of the attempt."


class ParentNotActive(AdmissionRefused):
    """The activation that the attempt names is not ACTIVE."""

    code = "DPONE_PARENT_NOT_ACTIVE"
    happened = "the activation of this workload is not ACTIVE."
    not_done = "nothing was admitted."
    check = "the activation's state, with `dponectl composition status`."
    avoid = "run the workload outside of its activation."


class AuthorityRefused(AdmissionRefused):
    """A nonproduction policy, grant, plan or registration document is not valid."""

    code = "DPONE_NONPRODUCTION_AUTHORITY_INVALID"


class OutcomeUnknown(GuardError):
    """Whether the effect took place cannot be told from evidence. Never retried; an operator reconciles."""

    code = "DPONE_OUTCOME_UNKNOWN"
    state_may_have_changed = True
    recovery_required = True
    happened = "it cannot be told from evidence whether the work took effect."
    not_done = "the operation was not released and its data stays owned."
    check = "the target and the evidence of the operation, then run `dponectl attempts reconcile`."
    avoid = "run the work again or clear the task before the operation is reconciled."


class ActivationUnknown(OutcomeUnknown):
    """An activation step was sent and its acknowledgement could not be read back."""

    code = "DPONE_COMPOSITION_ACTIVATION_COMMIT_UNKNOWN"
    happened = "an activation step was sent and its result could not be read back."
    not_done = "no further step of the activation was started."
    check = "the recorded request, with `dponectl composition status`, then repeat the same command."
    avoid = "delete sealed inputs, the request or control evidence."


class AttemptFailed(GuardError):
    """The attempt ended and its FAILED outcome is proven; the effects that remain are named in ``details``."""

    code = "DPONE_ATTEMPT_FAILED"
    state_may_have_changed = True
    happened = "the attempt is closed, quiescent and proven FAILED."
    not_done = "the work did not take its full effect."
    check = "the cause above and the outcome evidence of the operation."
    avoid = "expect the target to hold this attempt's result."


class Cancelled(GuardError):
    """The task was told to stop, so its work begins nothing more that would take effect."""

    code = "DPONE_CANCELLED"
    happened = "the task was told to stop while its work was going on."
    not_done = "the step that would have taken effect was not begun; the outcome is read from evidence as always."
    check = "who stopped the task in Airflow."


class Fenced(GuardError):
    """The target's fence row names a newer owner."""

    code = "DPONE_FENCED"
    happened = "the fence in the target is held by another operation."
    not_done = "the target was not changed by this operation."
    check = "which operation the fence names."
    avoid = "move the fence by hand."


class NotQuiescent(GuardError):
    """The closed writer is still seen on the server. ``sessions`` names what was seen."""

    code = "DPONE_NOT_QUIESCENT"
    happened = "the closed writer still has sessions, transactions or queued work on the server."
    not_done = "quiescence was not recorded and the operation was not finalized."
    check = "the sessions named here; the same call can be repeated until they are gone."
    avoid = "treat a closed gate or an ended process as proof that the writer is gone."

    def __init__(self, reason: str = "sessions_present", *, sessions: Sequence[Mapping[str, object]] = ()) -> None:
        self.sessions: tuple[dict[str, object], ...] = tuple(dict(session) for session in sessions)
        seen = "; ".join(", ".join(f"{k}={v}" for k, v in session.items()) for session in self.sessions)
        happened = f"{self.happened[:-1]}: {seen}." if seen else None
        super().__init__(reason, happened=happened, details={"sessions": list(self.sessions)})


class GateTampered(GuardError):
    """A principal, a gate row or the installed barrier differs from what was journaled or rendered."""

    code = "DPONE_GATE_TAMPERED"
    recovery_required = True
    happened = "a writer gate is not what the ledger journaled or the installer rendered."
    not_done = "no credential was issued and nothing was finalized."
    check = "who changed the login, user, role or trigger named by the reason."
    avoid = "repair the principal by hand: a new try gets its own."


class LedgerTampered(GuardError):
    """The control ledger's rows, catalog, version or incarnation differ from what was installed and written."""

    code = "DPONE_LEDGER_TAMPERED"
    recovery_required = True
    happened = "the control ledger is not what was installed and written."
    not_done = "the transaction was rolled back."
    check = "`dponectl ledger audit`, and who has rights on the control database."
    avoid = "edit ledger rows by hand."


class ValueRefused(GuardError):
    """A value cannot be carried over exactly. ``column`` and ``reason`` say which and why; the value is not shown."""

    code = "DPONE_VALUE_REFUSED"
    not_done = "the value was not written in a changed form."
    check = "the type of the target column against docs/types.md."

    def __init__(self, column: str, reason: str, *, row: int | None = None) -> None:
        self.column = column
        self.row = row
        where = f"column {column}" if row is None else f"column {column}, row {row}"
        super().__init__(
            reason, happened=f"{where}: a value would change silently ({reason}).", details={"column": column}
        )


class ControlUnavailable(GuardError):
    """The control database, or a server asked, could not be reached. Nothing was sent, so a repeat is safe."""

    code = "DPONE_CONTROL_UNAVAILABLE"
    happened = "the server could not be reached or did not grant the lock in time."
    not_done = "nothing was sent that could have changed state."
    check = "the connection and the server, then repeat the same call."


class ConfigurationError(GuardError):
    """A setting, an enrollment or a permission is missing or wrong. The reason names it."""

    code = "DPONE_CONFIGURATION"
    not_done = "nothing was started."
