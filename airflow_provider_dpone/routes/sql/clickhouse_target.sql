-- name: database
-- Engine and UUID of the target's database, and this server's identity.
SELECT engine, toString(uuid), toString(serverUUID()) FROM system.databases WHERE name = {database:String}

-- name: tables
-- What stands behind names of one database now: UUID, engine, size and age.
SELECT name, toString(uuid), engine, engine_full, coalesce(total_rows, 0), coalesce(total_bytes, 0),
       toUInt64(now() - metadata_modification_time)
FROM system.tables WHERE database = {database:String} AND has({names:Array(String)}, name)

-- name: attempt_tables
-- Staging and retired tables of attempts in one database, with their ages in seconds.
SELECT name, toUInt64(now() - metadata_modification_time), coalesce(total_bytes, 0)
FROM system.tables
WHERE database = {database:String} AND (startsWith(name, 'dpone_stg_') OR startsWith(name, 'dpone_old_'))

-- name: columns
-- Columns of one table in order.
SELECT name, type, default_kind FROM system.columns
WHERE database = {database:String} AND table = {table:String} ORDER BY position

-- name: ranges
-- Whether this server's DateTime64 and Date32 hold the years 0001 to 9999; older ones clamp to 1900 to 2299.
SELECT toString(toDateTime64('0001-01-01 00:00:00.0000000', 7, 'UTC')), toString(toDate32('9999-12-31'))

-- name: create_staging
-- An empty table like the target, with the UUID that was derived from the attempt.
CREATE TABLE {{staging}} UUID {{uuid}} AS {{target}}

-- name: exchange
-- The one deciding statement. It is sent once: a second would exchange the tables back.
EXCHANGE TABLES {{target}} AND {{staging}}

-- name: retire
-- Take the unique staging name away, so that no late EXCHANGE can find it.
RENAME TABLE {{staging}} TO {{retired}}

-- name: drop
-- Remove a table of an attempt that is settled.
DROP TABLE IF EXISTS {{table}} SYNC

-- name: rows
-- Every row in the form that the content check compares.
SELECT {{columns}} FROM {{table}}

-- name: plain
-- A value as it is.
{{column}}

-- name: ticks
-- Seconds since 1970-01-01 with seven decimal places.
CAST({{column}} AS Nullable(Decimal(38, 7)))

-- name: days
-- Days since 1970-01-01.
toInt32({{column}})

-- name: text
-- As text.
toString({{column}})
