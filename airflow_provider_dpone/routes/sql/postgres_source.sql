-- name: begin_snapshot
-- Everything that follows in this transaction sees one state of the source, and rows that a policy would hide are an error.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
SET LOCAL row_security = off;

-- name: column_types
-- The columns of a table with PostgreSQL's internal type names.
SELECT a.attname, t.typname
FROM pg_catalog.pg_attribute AS a
INNER JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped;

-- name: copy_out
-- The whole table as a binary stream.
COPY (SELECT {{columns}} FROM {{relation}}) TO STDOUT (FORMAT BINARY);
