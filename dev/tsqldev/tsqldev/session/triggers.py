"""Firing the triggers of a data-changing statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsqldev.errors import SqlError
from tsqldev.interfaces import Compiled, ModuleInfo, TriggerFire
from tsqldev.session.frames import Frame, LeaveTrigger, Scope

if TYPE_CHECKING:
    from tsqldev.session.interp import Interpreter


def fire(interp: Interpreter, compiled: Compiled, count: int, updated: frozenset[str]) -> None:
    """Run the triggers one after the other, inside the statement's transaction."""
    session = interp.session
    transaction = session.transactions.id
    for fired in compiled.fires:
        module = session.catalog.object(fired.trigger.object_id)
        if not isinstance(module, ModuleInfo):
            raise SqlError(208, f"Invalid object name '{fired.trigger.name}'.")
        session.rowcount = count
        run(interp, module, fired, updated)
        if session.transactions.id != transaction:
            ended = SqlError(3609, "The transaction ended in the trigger. The batch has been aborted.")
            ended.dooms = True
            raise ended


def run(
    interp: Interpreter, module: ModuleInfo, fired: TriggerFire | None, updated: frozenset[str], *, event: str = ""
) -> None:
    session = interp.session
    frame = Frame(
        Scope.TRIGGER,
        module.database,
        default_schema=module.schema or "dbo",
        module=module,
        line_offset=module.body_line - 1,
        fire=fired,
        updated=updated,
        event=event,
    )
    kept = session.settings.xact_abort
    principal = session.principal
    stack = len(session.impersonations)
    # Triggers run with XACT_ABORT ON unless they set it otherwise.
    session.settings.xact_abort = True
    try:
        if session.principal.database.casefold() != module.database.casefold():
            session.enter_module_database(module.database)
        session.impersonate_module(module)
        interp.run_text(module.body, frame)
    except LeaveTrigger as left:
        raise left.error from left
    finally:
        session.settings.xact_abort = kept
        session.restore_principal(principal, stack)
