"""What can go wrong with the stack, in words for the person who typed the command."""

from __future__ import annotations


class StackError(RuntimeError):
    """The stack, or one of its services, did not do what was asked. The text is complete: show it and nothing else."""


class Interrupted(StackError):
    """A stop was asked for while a service was still starting."""
