"""A ClickHouse server for development and tests: the engine of the chdb-core wheel behind an access proxy.

The engine is the real one (its logins, privileges, KILL QUERY, query_log, EXCHANGE and recovery are ClickHouse's
own); its access storage is users.xml only, so the proxy answers CREATE USER, ALTER USER, DROP USER, GRANT, REVOKE
and SHOW GRANTS and binds each such user to pool users declared before the engine started. It is a convenience and
never evidence about a ClickHouse server's access control.
"""

from dpone_embedded.clickhouse.server import Account, ClickHouseServer, Endpoint

__all__ = ["Account", "ClickHouseServer", "Endpoint"]
