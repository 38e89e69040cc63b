-- name: login
-- A standing account of the roles table (docs/roles.md). None of them writes data.
CREATE LOGIN {{login}} WITH PASSWORD = {{password}} HASHED, CHECK_POLICY = OFF;

-- name: controller_rights
-- What admitting, issuing, closing and observing need on the instance.
GRANT ALTER ANY LOGIN TO {{login}};
GRANT ALTER ANY CONNECTION TO {{login}};
GRANT VIEW SERVER STATE TO {{login}};
GRANT VIEW SERVER PERFORMANCE STATE TO {{login}};
GRANT VIEW ANY DEFINITION TO {{login}};

-- name: database
-- A database of the accepted collation.
CREATE DATABASE {{database}} COLLATE SQL_Latin1_General_CP1_CI_AS;

-- name: exists
-- Whether a database is there.
SELECT DB_ID(?);

-- name: raw_rows
-- How many rows of the data set are loaded.
SELECT COUNT_BIG(*) FROM [raw].[flights];

-- name: user
-- A login's user of the same name in the current database.
CREATE USER {{login}} FOR LOGIN {{login}};
