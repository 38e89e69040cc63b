-- name: service
-- Identity and version of the server, who is asking, and whether it is a standby, on which no role can be made.
SELECT system_identifier::text, current_setting('server_version_num')::int, current_setting('server_version'), current_user, pg_is_in_recovery()
FROM pg_control_system();

-- name: serialize
-- One issuer or closer of a role at a time: two that alter one role would break each other's transactions.
SELECT pg_advisory_xact_lock(hashtextextended(%(name)s, 0));

-- name: wait_briefly
-- For locks that the attempt itself may hold: they are not worth a wait, its sessions are ended.
SET LOCAL lock_timeout = '200ms';

-- name: wait_as_usual
-- For the rest of the transaction, what the session began with.
SET LOCAL lock_timeout TO DEFAULT;

-- name: held_by_itself
-- Whether the lock of serialize is held by a session of the very role that is to be closed.
SELECT EXISTS (
    SELECT FROM pg_catalog.pg_locks AS l
    INNER JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid
    INNER JOIN pg_catalog.pg_roles AS r ON r.oid = a.usesysid
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND r.rolname = %(name)s
        AND l.classid::bigint = ((hashtextextended(%(name)s, 0) >> 32) & 4294967295)
        AND l.objid::bigint = (hashtextextended(%(name)s, 0) & 4294967295)
);

-- name: issuer
-- What the issuer is: whether it can make roles, is more than that, and may hand out membership in the source role.
SELECT r.rolcreaterole, r.rolsuper,
    EXISTS (SELECT FROM pg_catalog.pg_roles AS s WHERE s.rolname = %(source_role)s),
    EXISTS (
        SELECT FROM pg_catalog.pg_auth_members AS m
        INNER JOIN pg_catalog.pg_roles AS s ON s.oid = m.roleid
        WHERE m.member = r.oid AND m.admin_option AND s.rolname = %(source_role)s
    )
FROM pg_catalog.pg_roles AS r WHERE r.rolname = current_user;

-- name: may_observe
-- Whether this account sees every session: without it the view shows fewer columns instead of an error.
SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE');

-- name: role
-- A role of this exact name: whether it may log in now, what it may do, in what it is a member, and whether we made it.
SELECT r.oid::bigint, r.rolcanlogin, coalesce(r.rolvaliduntil <= now(), false),
    r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolreplication OR r.rolbypassrls,
    ARRAY(
        SELECT g.rolname::text FROM pg_catalog.pg_auth_members AS m
        INNER JOIN pg_catalog.pg_roles AS g ON g.oid = m.roleid
        WHERE m.member = r.oid ORDER BY 1
    ),
    EXISTS (
        SELECT FROM pg_catalog.pg_auth_members AS m
        INNER JOIN pg_catalog.pg_roles AS u ON u.oid = m.member
        WHERE m.roleid = r.oid AND m.admin_option AND u.rolname = current_user
    )
FROM pg_catalog.pg_roles AS r WHERE r.rolname = %(name)s;

-- name: renamed
-- Roles that were made under this name and have another one now. What follows a role under every name is its comment.
SELECT r.rolname::text FROM pg_catalog.pg_shdescription AS d
INNER JOIN pg_catalog.pg_roles AS r ON r.oid = d.objoid
WHERE d.classoid = 'pg_catalog.pg_authid'::regclass AND d.description = %(name)s AND r.rolname <> %(name)s
ORDER BY 1;

-- name: valid_until
-- The end of a role's life by the server's own clock, which is the one that ends it.
SELECT to_char((now() + %(lifetime)s) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS+00');

-- name: create_role
-- The attempt's role: it can do what its one group can (read the source, or call the seed routine), and nothing else; a client-made verifier, no password. Whoever makes it gets no rights of it, whatever the server's settings say.
SET LOCAL createrole_self_grant = '';
CREATE ROLE {{role}} LOGIN INHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS
    CONNECTION LIMIT {{connections}} PASSWORD {{verifier}} VALID UNTIL {{valid_until}};
GRANT {{source_role}} TO {{role}} WITH INHERIT TRUE, SET FALSE, ADMIN FALSE;
ALTER ROLE {{role}} SET default_transaction_read_only = {{read_only}};
COMMENT ON ROLE {{role}} IS '{{name}}';

-- name: create_tombstone
-- Take the name, for good, with a role that never could log in.
SET LOCAL createrole_self_grant = '';
CREATE ROLE {{role}} NOLOGIN NOINHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS CONNECTION LIMIT 0;

-- name: bar_role
-- Nobody can log in as this role again: no login right, no password, expired.
ALTER ROLE {{role}} NOLOGIN NOINHERIT CONNECTION LIMIT 0 PASSWORD NULL VALID UNTIL '2000-01-01 00:00:00+00';

-- name: revoke_membership
-- Take away what the role reads, from sessions that are open too.
REVOKE {{source_role}} FROM {{role}};

-- name: take_rights_of
-- What ending the sessions of a role takes: its rights, which are none any more. Narrower than pg_signal_backend.
GRANT {{role}} TO CURRENT_USER WITH INHERIT TRUE, SET FALSE, ADMIN FALSE;

-- name: give_back
-- End of the step before.
REVOKE {{role}} FROM CURRENT_USER GRANTED BY CURRENT_USER;

-- name: sessions
-- Every session of the role, whatever SET ROLE made of it, and those of roles that were dropped while they were in use.
SELECT pid, usesysid::bigint, backend_start::text, coalesce(state, backend_type)
FROM pg_catalog.pg_stat_activity
WHERE usesysid = %(oid)s OR (usesysid IS NOT NULL AND usename IS NULL)
ORDER BY pid;

-- name: end_session
-- End one session if it is still the one that was seen, and wait a while until it is gone.
SELECT pg_terminate_backend(pid, 5000)
FROM pg_catalog.pg_stat_activity
WHERE pid = %(pid)s AND backend_start = %(backend_start)s::timestamptz AND usesysid = %(oid)s;

-- name: end_all
-- End every session of the role, and wait for none of them.
SELECT pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE usesysid = %(oid)s;

-- name: starting
-- Connections that have no role yet. Servers before 18 show one as a transaction of a process that has no row.
SELECT pid FROM pg_catalog.pg_stat_activity
WHERE usesysid IS NULL AND backend_type IN ('client backend', 'walsender')
UNION
SELECT l.pid FROM pg_catalog.pg_locks AS l
WHERE l.locktype = 'virtualxid' AND l.pid IS NOT NULL
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_activity AS a WHERE a.pid = l.pid);

-- name: prepared
-- Transactions that go on without a session: those of the role and of roles that were dropped (first column true), and those of anybody that are younger than the role: a session of it may have been somebody else by SET ROLE. The role's comment tells when it was made.
SELECT p.owner IS NULL OR p.owner = %(name)s, p.gid, p.transaction::text
FROM pg_catalog.pg_prepared_xacts AS p
WHERE p.owner IS NULL OR p.owner = %(name)s
    OR EXISTS (
        SELECT FROM pg_catalog.pg_shdescription AS d
        WHERE d.classoid = 'pg_catalog.pg_authid'::regclass AND d.objoid = %(oid)s AND age(p.transaction) <= age(d.xmin)
    )
ORDER BY p.gid;

-- name: session_seen
-- One session of a role as this account sees it; the positive control of every absence.
SELECT usesysid::bigint FROM pg_catalog.pg_stat_activity
WHERE pid = %(pid)s AND backend_start IS NOT NULL AND state IS NOT NULL;

-- name: own_session
-- What the attempt's own session says of itself: identity, read-only by default, and what its role could do but read: rows that it could write, tables of its own, where it could create something, and what the server lets it do besides.
SELECT session_user, current_setting('default_transaction_read_only'),
    ARRAY(
        SELECT c.oid::regclass::text FROM pg_catalog.pg_class AS c
        INNER JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
            AND has_schema_privilege(n.oid, 'USAGE')
            AND CASE c.relkind WHEN 'S' THEN has_sequence_privilege(c.oid, 'USAGE, UPDATE')
                ELSE has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER')
                    OR has_any_column_privilege(c.oid, 'INSERT, UPDATE')
                    OR pg_has_role(c.relowner, 'USAGE')
            END
        UNION ALL
        SELECT 'CREATE in the schema ' || quote_ident(n.nspname) FROM pg_catalog.pg_namespace AS n
        WHERE n.nspname !~ '^pg_' AND has_schema_privilege(n.oid, 'CREATE')
        UNION ALL
        SELECT 'CREATE in the database' WHERE has_database_privilege(current_database(), 'CREATE')
        UNION ALL
        SELECT r.rolname::text FROM pg_catalog.pg_roles AS r
        WHERE r.rolname ~ '^pg_' AND pg_has_role(r.oid, 'USAGE')
            AND r.rolname NOT IN ('pg_read_all_data', 'pg_read_all_settings', 'pg_read_all_stats', 'pg_stat_scan_tables', 'pg_monitor')
        ORDER BY 1 LIMIT 5
    );

-- name: left_controls
-- Positive controls whose maker was killed: their life is over and they have no session.
SELECT r.rolname::text FROM pg_catalog.pg_roles AS r
INNER JOIN pg_catalog.pg_auth_members AS m ON m.roleid = r.oid AND m.admin_option
INNER JOIN pg_catalog.pg_roles AS u ON u.oid = m.member AND u.rolname = current_user
WHERE r.rolname ~ '^dpone_c_[0-9a-f]{32}$' AND r.rolvaliduntil <= now()
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_activity AS a WHERE a.usesysid = r.oid)
ORDER BY 1;

-- name: drop_role
-- Remove a role that only served as a positive control.
DROP ROLE IF EXISTS {{role}};
