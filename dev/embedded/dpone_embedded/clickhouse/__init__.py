"""A ClickHouse server for development and tests: the engine of the chdb-core wheel behind an access proxy.

The engine is the real one (its logins, privileges, KILL QUERY, query_log, EXCHANGE and recovery are ClickHouse's
own); its access storage is users.xml only, so the proxy answers CREATE USER, ALTER USER, DROP USER, GRANT, REVOKE
and SHOW GRANTS and binds each such user to pool users declared before the engine started. It is a convenience and
never evidence about a ClickHouse server's access control.

Known differences: SELECT granted on one table serves EXCHANGE and RENAME only, reading rows needs a standing account;
INSERT by an SQL user takes FORMAT or VALUES, not SELECT; roles, quotas, row policies and settings profiles are refused;
the engine writes asynchronous inserts at once; serverUUID() is the state directory's, the engine's own is zero; error
texts of the engine may name a pool user. Everything that is not known is refused with ClickHouse's own error numbers.
"""

from dpone_embedded.clickhouse.server import Account, ClickHouseServer, Endpoint

__all__ = ["Account", "ClickHouseServer", "Endpoint"]
