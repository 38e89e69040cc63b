-- name: mssql_collation
-- The collation by which a database compares object names.
SELECT CONVERT(nvarchar(128), DATABASEPROPERTYEX(?, 'Collation'));

-- name: clickhouse_identity
-- The server's and the database's own UUIDs, and the database engine.
SELECT toString(serverUUID()), toString(uuid), engine FROM system.databases WHERE name = {database:String}

-- name: clickhouse_server
-- The server's own UUID.
SELECT toString(serverUUID())

-- name: mssql_compare
-- Which of the given names are one relation in this database, and what is there under each of them.
SELECT n.[number], DENSE_RANK() OVER (ORDER BY n.[schema_name] COLLATE DATABASE_DEFAULT, n.[relation_name] COLLATE DATABASE_DEFAULT), o.[type]
FROM OPENJSON(?) WITH ([number] int '$[0]', [schema_name] nvarchar(128) '$[1]', [relation_name] nvarchar(128) '$[2]') AS n
LEFT JOIN sys.schemas AS s ON s.[name] = n.[schema_name] COLLATE DATABASE_DEFAULT
LEFT JOIN sys.objects AS o ON o.[schema_id] = s.[schema_id] AND o.[name] = n.[relation_name] COLLATE DATABASE_DEFAULT;

-- name: postgres_database
-- The oid of the current database, which no other database of the server has ever had.
SELECT oid::bigint FROM pg_catalog.pg_database WHERE datname = current_database();
