-- name: login
-- A standing account of the roles table (docs/roles.md). None of them writes data.
CREATE LOGIN {{login}} WITH PASSWORD = {{password}} HASHED, CHECK_POLICY = OFF;

-- name: database
-- A database of the accepted collation.
CREATE DATABASE {{database}} COLLATE SQL_Latin1_General_CP1_CI_AS;

-- name: exists
-- Whether a database is there.
SELECT DB_ID(?);

-- name: raw_rows
-- How many rows of the data set are loaded.
SELECT COUNT_BIG(*) FROM [raw].[flights];
