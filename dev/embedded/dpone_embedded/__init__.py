"""The development stack: one call starts a SQL Server emulation, PostgreSQL, ClickHouse and Airflow on loopback ports.

    from dpone_embedded import Stack

    with Stack("/some/folder") as stack:      # start() on entry, stop() on exit
        stack.addresses.airflow.url

`Stack` is a handle; the services belong to a supervisor process, which ends them when its owner goes away (see
`supervisor.py`). Nothing here is part of the product and nothing here is evidence about a real SQL Server.
"""

from dpone_embedded.addresses import Addresses
from dpone_embedded.errors import StackError
from dpone_embedded.stack import Stack

__all__ = ["Addresses", "Stack", "StackError"]
