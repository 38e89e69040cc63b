"""The TDS 7.4 protocol (MS-TDS): what a client of SQL Server speaks, against `tsqldev.interfaces.Engine`."""

from tsqldev.wire.server import TdsServer

__all__ = ["TdsServer"]
