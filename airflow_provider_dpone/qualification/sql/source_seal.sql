-- name: snapshot
-- Everything of a seal is read in one transaction that cannot write.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;

-- name: incarnation
-- Which server, database and timeline this is: a server that was restored to another point, or promoted, has another timeline. The name of the log that is written has it from the first moment; the control file learns it by the next checkpoint.
SELECT s.system_identifier::text,
    CASE WHEN pg_is_in_recovery() THEN c.timeline_id::bigint ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END,
    d.oid::bigint, d.datname::text, pg_is_in_recovery()
FROM pg_control_system() AS s CROSS JOIN pg_control_checkpoint() AS c CROSS JOIN pg_database AS d
WHERE d.datname = current_database();

-- name: relation
-- The table of this name: who owns it, and what could change or hide its rows: triggers, rules, children, row security.
SELECT c.oid::bigint, pg_get_userbyid(c.relowner)::text, c.relkind::text = 'r' AND NOT c.relispartition AND c.relpersistence::text = 'p',
    EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal)
        OR EXISTS (SELECT FROM pg_rewrite AS w WHERE w.ev_class = c.oid)
        OR EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhparent = c.oid OR i.inhrelid = c.oid)
        OR c.relrowsecurity
FROM pg_class AS c INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(table)s;

-- name: other_writers
-- Who but the owner, and superusers, may change rows of the table, alter it, or become its owner.
SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee)::text END || ': ' || a.privilege_type
FROM pg_class AS c CROSS JOIN LATERAL aclexplode(c.relacl) AS a
WHERE c.oid = %(oid)s AND a.grantee <> c.relowner AND a.privilege_type NOT IN ('SELECT', 'REFERENCES')
UNION
SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee)::text END || ': ' || a.privilege_type || ' of ' || t.attname
FROM pg_attribute AS t CROSS JOIN LATERAL aclexplode(t.attacl) AS a INNER JOIN pg_class AS c ON c.oid = t.attrelid
WHERE t.attrelid = %(oid)s AND a.grantee <> c.relowner AND a.privilege_type NOT IN ('SELECT', 'REFERENCES')
UNION
SELECT pg_get_userbyid(m.member)::text || ': member of the owner'
FROM pg_class AS c INNER JOIN pg_auth_members AS m ON m.roleid = c.relowner WHERE c.oid = %(oid)s
UNION
SELECT r.rolname::text || ': pg_write_all_data' FROM pg_auth_members AS m INNER JOIN pg_roles AS r ON r.oid = m.member
WHERE m.roleid = 'pg_write_all_data'::regrole
ORDER BY 1;

-- name: columns
-- Names, types and whether NULL is allowed, in their order; the last column: whether a value is made by the server.
SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, a.atthasdef OR a.attidentity::text <> '' OR a.attgenerated::text <> ''
FROM pg_attribute AS a
WHERE a.attrelid = %(oid)s AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum;

-- name: key
-- The columns of the primary key, in its order.
SELECT a.attname::text
FROM pg_index AS i
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, n)
INNER JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = %(oid)s AND i.indisprimary
ORDER BY k.n;

-- name: rows
-- Every row, each value as the text that the server gives for it.
SELECT {{values}} FROM ONLY {{table}};
