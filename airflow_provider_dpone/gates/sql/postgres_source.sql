-- name: accounts
-- The source role, which nobody logs in as, and the two standing accounts. Passwords are set by the DBA afterwards.
CREATE ROLE {{source_role}} NOLOGIN;
CREATE ROLE {{issuer}} LOGIN CREATEROLE;
CREATE ROLE {{observer}} LOGIN;
GRANT {{source_role}} TO {{issuer}} WITH ADMIN TRUE, INHERIT FALSE, SET FALSE;
GRANT pg_read_all_stats TO {{observer}} WITH ADMIN FALSE, INHERIT TRUE, SET FALSE;

-- name: connect
-- Who enters a source database: the attempts through the source role, and the issuer and observer for their own work.
GRANT CONNECT ON DATABASE {{database}} TO {{source_role}}, {{issuer}}, {{observer}};

-- name: read_schema
-- Names in a schema of the source can be resolved by attempts.
GRANT USAGE ON SCHEMA {{schema}} TO {{source_role}};

-- name: read_table
-- One table that attempts may extract.
GRANT SELECT ON {{table}} TO {{source_role}};
