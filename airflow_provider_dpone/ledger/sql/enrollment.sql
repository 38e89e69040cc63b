-- What enrollment looks at inside a target database.

-- name: database_role
-- The type of the principal that is to be the writer role: R for a database role.
SELECT p.[type] FROM {{database}}.sys.database_principals AS p WHERE p.[name] = ? AND p.[is_fixed_role] = 0;

-- name: database_schemas
-- The schemas that the database has.
SELECT s.[name] FROM {{database}}.sys.schemas AS s;
