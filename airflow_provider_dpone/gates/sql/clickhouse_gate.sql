-- name: service
-- Identity and version of the server, and who is asking.
SELECT toString(serverUUID()) AS service_id, version() AS server_version, currentUser() AS observer

-- name: may_observe
-- Whether this account can see every table: without it the catalog shows fewer rows instead of an error.
CHECK GRANT SHOW TABLES, SELECT ON *.*

-- name: may_manage
-- Whether this account can make, change and bar users, and end their queries.
CHECK GRANT ACCESS MANAGEMENT, KILL QUERY ON *.*

-- name: user
-- Where the user of this exact name is stored, and from how many hosts it may log in.
SELECT storage, length(host_ip) + length(host_names) + length(host_names_regexp) + length(host_names_like)
FROM system.users WHERE name = {user:String}

-- name: create_user
-- The attempt's user, authenticated by a salted hash that was made on the client.
CREATE USER {{user}} IDENTIFIED WITH sha256_hash BY {{digest}} SALT {{salt}} VALID UNTIL {{valid_until}} HOST {{host}}

-- name: create_tombstone
-- Take the name, for good, with a hash of which nobody knows the password; an existing user stays as it is.
CREATE USER IF NOT EXISTS {{user}} IDENTIFIED WITH sha256_hash BY {{digest}} SALT {{salt}} VALID UNTIL {{valid_until}} HOST NONE

-- name: bar_user
-- Nobody can log in as this user again: unknown password, expired, from no host.
ALTER USER {{user}} IDENTIFIED WITH sha256_hash BY {{digest}} SALT {{salt}} VALID UNTIL {{valid_until}} HOST NONE

-- name: revoke_all
-- Take every right away; a statement that has been received but not begun fails from here on.
REVOKE ALL ON *.* FROM {{user}}

-- name: drop_user
-- Remove a user that only served as a positive control.
DROP USER IF EXISTS {{user}}

-- name: grant_ingest
-- The right to insert into one staging table.
GRANT INSERT ON {{staging}} TO {{user}}

-- name: grant_publish
-- What EXCHANGE TABLES needs on one of its two names.
GRANT SELECT, INSERT, CREATE TABLE, DROP TABLE ON {{table}} TO {{user}}

-- name: show_grants
-- The rights that the user has now.
SHOW GRANTS FOR {{user}}

-- name: kill_queries
-- End everything that still runs as the user. Ending is asynchronous; the proof looks again.
KILL QUERY WHERE user = {user:String} OR initial_user = {user:String} ASYNC

-- name: processes
-- Every statement that runs as the user, or was started by it.
SELECT query_id, query_kind, toUInt64(elapsed * 1000) AS elapsed_ms
FROM system.processes
WHERE user = {user:String} OR initial_user = {user:String}
ORDER BY query_id

-- name: process_user
-- Whom the server shows as the user of one running statement.
SELECT user FROM system.processes WHERE query_id = {query_id:String}

-- name: control_statement
-- A statement that runs long enough to be seen; the positive control of every absence.
SELECT sleep({seconds:Float64})

-- name: staging_now
-- Under which names the attempt's staging table exists now; after EXCHANGE it has the target's name.
SELECT database, name FROM system.tables WHERE uuid = toUUID({uuid:String}) OR name IN ({staging:String}, {retired:String})

-- name: queued_work
-- Work that goes on without a session: pending asynchronous inserts, mutations, distributed and replicated parts.
SELECT 'asynchronous_insert' AS kind, concat(database, '.', table) AS place, toString(total_bytes) AS detail
FROM system.asynchronous_inserts WHERE has({tables:Array(String)}, concat(database, '.', table))
UNION ALL
SELECT 'mutation', concat(database, '.', table), mutation_id
FROM system.mutations WHERE is_done = 0 AND has({tables:Array(String)}, concat(database, '.', table))
UNION ALL
SELECT 'distribution_queue', concat(database, '.', table), toString(data_files)
FROM system.distribution_queue WHERE data_files > 0 AND has({tables:Array(String)}, concat(database, '.', table))
UNION ALL
SELECT 'replication_queue', concat(database, '.', table), node_name
FROM system.replication_queue WHERE has({tables:Array(String)}, concat(database, '.', table))
