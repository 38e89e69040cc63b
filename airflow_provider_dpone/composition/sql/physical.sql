-- name: mssql_collation
-- The collation by which a database compares object names.
SELECT CONVERT(nvarchar(128), DATABASEPROPERTYEX(?, 'Collation'));

-- name: clickhouse_identity
-- The server's and the database's own UUIDs, and the database engine.
SELECT toString(serverUUID()), toString(uuid), engine FROM system.databases WHERE name = {database:String}

-- name: clickhouse_server
-- The server's own UUID.
SELECT toString(serverUUID())
