-- name: accounts
-- Who owns the seed routine and the seeded tables, and what an attempt is a member of while it seeds: nobody logs in as either.
CREATE ROLE {{owner}} NOLOGIN;
CREATE ROLE {{seeder}} NOLOGIN;
GRANT {{seeder}} TO {{issuer}} WITH ADMIN TRUE, INHERIT FALSE, SET FALSE;

-- name: begin
-- All of the routine, or nothing of it.
BEGIN;
CREATE SCHEMA dpone_seed AUTHORIZATION {{owner}};
GRANT CONNECT ON DATABASE {{database}} TO {{seeder}};
SET LOCAL ROLE {{owner}};

-- name: table_schemas
-- The schemas in which the routine may make tables. Only the DBA writes here.
CREATE TABLE dpone_seed.schemas (
    schema_name text COLLATE "C" NOT NULL PRIMARY KEY
);

-- name: table_gates
-- One row an attempt that seeds. It is held to the end of the transaction by whoever seeds or closes.
CREATE TABLE dpone_seed.gates (
    role_name text COLLATE "C" NOT NULL PRIMARY KEY,
    operation_key text COLLATE "C" NOT NULL UNIQUE CHECK (operation_key ~ '^sha256:[0-9a-f]{64}$'),
    plan_sha256 text COLLATE "C" CHECK (plan_sha256 ~ '^sha256:[0-9a-f]{64}$'),
    state text COLLATE "C" NOT NULL CHECK (state IN ('OPEN', 'CLOSED')),
    applied_rows bigint,
    content_sha256 text COLLATE "C",
    table_oid oid,
    CHECK (state = 'CLOSED' OR plan_sha256 IS NOT NULL),
    CHECK ((applied_rows IS NULL) = (content_sha256 IS NULL) AND (applied_rows IS NULL) = (table_oid IS NULL))
);

-- name: routine_gate_moves
-- A gate is closed once and for all, what a seed did is written once, and nothing is deleted.
CREATE FUNCTION dpone_seed.gate_moves() RETURNS trigger LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    IF TG_OP <> 'UPDATE'
        OR (OLD.role_name, OLD.operation_key) IS DISTINCT FROM (NEW.role_name, NEW.operation_key)
        OR OLD.plan_sha256 IS DISTINCT FROM NEW.plan_sha256
        OR OLD.state = 'CLOSED'
        OR (OLD.applied_rows IS NOT NULL
            AND (OLD.applied_rows, OLD.content_sha256, OLD.table_oid) IS DISTINCT FROM (NEW.applied_rows, NEW.content_sha256, NEW.table_oid))
    THEN
        RAISE EXCEPTION 'DPONE_SEED: gate_immutable';
    END IF;
    RETURN NEW;
END
$body$;
CREATE TRIGGER gate_moves BEFORE UPDATE OR DELETE ON dpone_seed.gates FOR EACH ROW EXECUTE FUNCTION dpone_seed.gate_moves();
CREATE TRIGGER gate_stays BEFORE TRUNCATE ON dpone_seed.gates FOR EACH STATEMENT EXECUTE FUNCTION dpone_seed.gate_moves();

-- name: routine_open_gate
-- The issuer opens the gate of a role, in the transaction that makes the role. A name that was closed is never opened.
CREATE FUNCTION dpone_seed.open_gate(operation_key text, role_name text, plan_sha256 text) RETURNS void LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $body$
BEGIN
    INSERT INTO dpone_seed.gates (role_name, operation_key, plan_sha256, state) VALUES (role_name, operation_key, plan_sha256, 'OPEN');
END
$body$;

-- name: routine_close_gate
-- The issuer closes it: waits for who holds it, and whoever waits behind finds it closed. A gate that never was is made closed.
CREATE FUNCTION dpone_seed.close_gate(operation_key text, role_name text) RETURNS void LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $body$
DECLARE
    gate dpone_seed.gates%ROWTYPE;
BEGIN
    INSERT INTO dpone_seed.gates AS g (role_name, operation_key, state) VALUES (role_name, operation_key, 'CLOSED') ON CONFLICT DO NOTHING;
    SELECT * INTO gate FROM dpone_seed.gates AS g WHERE g.role_name = close_gate.role_name FOR UPDATE;
    IF NOT FOUND OR gate.operation_key <> operation_key THEN
        RAISE EXCEPTION 'DPONE_SEED: gate_foreign';
    END IF;
    IF gate.state = 'OPEN' THEN
        UPDATE dpone_seed.gates AS g SET state = 'CLOSED' WHERE g.role_name = close_gate.role_name;
    END IF;
END
$body$;

-- name: routine_seed
-- What an attempt may execute, and all that it may: apply the one plan that its gate was opened for, once.
CREATE FUNCTION dpone_seed.seed(plan text) RETURNS text LANGUAGE plpgsql
    STRICT SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
    SET row_security = off
    SET datestyle = 'ISO, YMD'
    SET timezone = 'UTC'
    SET bytea_output = 'hex'
    SET standard_conforming_strings = on
    SET transform_null_equals = off
    SET default_tablespace = ''
    SET default_table_access_method = 'heap'
AS $body$
DECLARE
    gate dpone_seed.gates%ROWTYPE;
    doc jsonb;
    item jsonb;
    names text[] := '{}';
    definitions text[] := '{}';
    reads text[] := '{}';
    frames text[] := '{}';
    key_names text;
    place text;
    width integer := 0;
    made oid;
    content text;
    counted bigint;
BEGIN
    -- First the gate, held to the end of this transaction: nothing below happens behind a closed one.
    SELECT * INTO gate FROM dpone_seed.gates AS g WHERE g.role_name = session_user FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'DPONE_SEED: gate_missing';
    END IF;
    IF gate.state <> 'OPEN' OR NOT has_function_privilege(session_user, 'dpone_seed.seed(text)', 'EXECUTE') THEN
        -- Closing takes the right away before it takes the gate: who waited here since then was not accepted.
        RAISE EXCEPTION 'DPONE_SEED: gate_closed';
    END IF;
    IF current_setting('max_prepared_transactions')::int <> 0 THEN
        -- A transaction that goes on without a session would hold the gate, and the table, after every session is gone.
        RAISE EXCEPTION 'DPONE_SEED: prepared_transactions';
    END IF;
    IF octet_length(plan) > 1048576 OR getdatabaseencoding() <> 'UTF8' THEN
        RAISE EXCEPTION 'DPONE_SEED: plan_size';
    END IF;
    IF 'sha256:' || encode(sha256(convert_to(plan, 'UTF8')), 'hex') <> gate.plan_sha256 THEN
        RAISE EXCEPTION 'DPONE_SEED: plan_digest';
    END IF;
    IF gate.applied_rows IS NOT NULL THEN
        -- The reply was lost and the call is made again: it happened, and nothing is done twice.
        RETURN gate.content_sha256;
    END IF;

    -- The complete plan, whoever checked it before.
    doc := plan::jsonb;
    IF jsonb_typeof(doc) <> 'object' OR (SELECT array_agg(k ORDER BY k COLLATE "C") FROM jsonb_object_keys(doc) AS k) IS DISTINCT FROM ARRAY[
        'columns', 'content_sha256', 'fixture_plan_sha256', 'key', 'object_id', 'qualified_name', 'row_count', 'rows', 'schema', 'work_item_sha256']
        OR doc->>'schema' IS DISTINCT FROM 'dpone.postgres-seed-plan.v1'
        OR jsonb_typeof(doc->'columns') <> 'array' OR jsonb_typeof(doc->'key') <> 'array' OR jsonb_typeof(doc->'rows') <> 'array'
        OR jsonb_typeof(doc->'qualified_name') <> 'array' OR jsonb_typeof(doc->'row_count') <> 'number' OR jsonb_typeof(doc->'content_sha256') <> 'string'
    THEN
        RAISE EXCEPTION 'DPONE_SEED: plan_members';
    END IF;
    IF jsonb_array_length(doc->'qualified_name') <> 3
        OR EXISTS (SELECT FROM jsonb_array_elements(doc->'qualified_name') AS n
            WHERE jsonb_typeof(n) <> 'string' OR octet_length(n #>> '{}') NOT BETWEEN 1 AND 63)
        OR doc->'qualified_name'->>0 <> current_database()
        OR NOT EXISTS (SELECT FROM dpone_seed.schemas AS s WHERE s.schema_name = doc->'qualified_name'->>1)
    THEN
        RAISE EXCEPTION 'DPONE_SEED: plan_name';
    END IF;
    IF jsonb_array_length(doc->'columns') NOT BETWEEN 1 AND 256 THEN
        RAISE EXCEPTION 'DPONE_SEED: plan_columns';
    END IF;
    FOR item IN SELECT c FROM jsonb_array_elements(doc->'columns') WITH ORDINALITY AS e(c, n) ORDER BY n LOOP
        IF jsonb_typeof(item) <> 'object' OR (SELECT array_agg(k ORDER BY k COLLATE "C") FROM jsonb_object_keys(item) AS k) IS DISTINCT FROM ARRAY['name', 'nullable', 'type']
            OR jsonb_typeof(item->'name') <> 'string' OR octet_length(item->>'name') NOT BETWEEN 1 AND 63
            OR jsonb_typeof(item->'nullable') <> 'boolean' OR item->>'name' = ANY (names)
        THEN
            RAISE EXCEPTION 'DPONE_SEED: plan_columns';
        END IF;
        IF jsonb_typeof(item->'type') <> 'string' OR item->>'type' !~
            '^(boolean|smallint|integer|bigint|text|bytea|uuid|date|time without time zone|timestamp without time zone|timestamp with time zone|character varying\([1-9][0-9]{0,4}\)|numeric\([1-9][0-9]?,[0-9]{1,2}\))$'
        THEN
            RAISE EXCEPTION 'DPONE_SEED: plan_type';
        END IF;
        names := names || (item->>'name');
        -- The type is one of the list above: the one text of a plan that is not quoted.
        definitions := definitions || (format('%I ', item->>'name') || (item->>'type') || CASE WHEN (item->>'nullable')::boolean THEN '' ELSE ' NOT NULL' END);
        reads := reads || format('(r.v->>%s)::%s', width, item->>'type');
        frames := frames || format('CASE WHEN t.%1$I IS NULL THEN ''N'' ELSE ''V'' || octet_length(t.%1$I::text) || '':'' || t.%1$I::text END', item->>'name');
        width := width + 1;
    END LOOP;
    IF EXISTS (SELECT FROM jsonb_array_elements(doc->'key') AS k WHERE jsonb_typeof(k) <> 'string' OR NOT (k #>> '{}') = ANY (names)) THEN
        RAISE EXCEPTION 'DPONE_SEED: plan_key';
    END IF;
    IF jsonb_array_length(doc->'rows') > 100000 OR (doc->>'row_count')::numeric <> jsonb_array_length(doc->'rows')
        OR EXISTS (SELECT FROM jsonb_array_elements(doc->'rows') AS r(v)
            WHERE CASE WHEN jsonb_typeof(r.v) <> 'array' THEN true ELSE jsonb_array_length(r.v) <> width
                OR EXISTS (SELECT FROM jsonb_array_elements(r.v) AS f(v) WHERE jsonb_typeof(f.v) NOT IN ('string', 'null')) END)
    THEN
        RAISE EXCEPTION 'DPONE_SEED: plan_rows';
    END IF;
    SELECT 'sha256:' || encode(sha256(coalesce(string_agg(d, '' ORDER BY d), '')), 'hex') INTO content FROM (
        SELECT sha256(convert_to(string_agg(CASE WHEN f.v IS NULL THEN 'N' ELSE 'V' || octet_length(f.v) || ':' || f.v END, '' ORDER BY f.n), 'UTF8')) AS d
        FROM jsonb_array_elements(doc->'rows') WITH ORDINALITY AS r(v, n)
        CROSS JOIN LATERAL jsonb_array_elements_text(r.v) WITH ORDINALITY AS f(v, n)
        GROUP BY r.n) AS sent;
    IF content IS DISTINCT FROM doc->>'content_sha256' THEN
        RAISE EXCEPTION 'DPONE_SEED: plan_content';
    END IF;

    -- A table of somebody else is left alone; one of an earlier seed is made anew.
    place := format('%I.%I', doc->'qualified_name'->>1, doc->'qualified_name'->>2);
    IF EXISTS (SELECT FROM pg_class AS c INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
        WHERE n.nspname = doc->'qualified_name'->>1 AND c.relname = doc->'qualified_name'->>2
            AND (c.relkind <> 'r' OR pg_get_userbyid(c.relowner) <> current_user))
    THEN
        RAISE EXCEPTION 'DPONE_SEED: table_foreign';
    END IF;
    EXECUTE 'DROP TABLE IF EXISTS ' || place;
    SELECT string_agg(quote_ident(k), ', ' ORDER BY n) INTO key_names FROM jsonb_array_elements_text(doc->'key') WITH ORDINALITY AS e(k, n);
    EXECUTE 'CREATE TABLE ' || place || ' (' || array_to_string(definitions, ', ')
        || CASE WHEN key_names IS NULL THEN '' ELSE ', PRIMARY KEY (' || key_names || ')' END || ')';
    EXECUTE 'INSERT INTO ' || place || ' SELECT ' || array_to_string(reads, ', ') || ' FROM jsonb_array_elements($1) AS r(v)' USING doc->'rows';

    -- What stands there now, and not what was sent: a value that a type changed ends this transaction.
    EXECUTE 'SELECT count(*), ''sha256:'' || encode(sha256(coalesce(string_agg(d, '''' ORDER BY d), '''')), ''hex'') FROM (SELECT sha256(convert_to('
        || array_to_string(frames, ' || ') || ', ''UTF8'')) AS d FROM ' || place || ' AS t) AS seeded' INTO counted, content;
    IF counted <> (doc->>'row_count')::numeric OR content IS DISTINCT FROM doc->>'content_sha256' THEN
        RAISE EXCEPTION 'DPONE_SEED: plan_content';
    END IF;
    SELECT c.oid INTO made FROM pg_class AS c INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = doc->'qualified_name'->>1 AND c.relname = doc->'qualified_name'->>2;
    UPDATE dpone_seed.gates AS g SET applied_rows = counted, content_sha256 = content, table_oid = made WHERE g.role_name = session_user;
    RETURN content;
END
$body$;

-- name: rights
-- Nobody executes or reads anything of it but these.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA dpone_seed FROM PUBLIC;
GRANT USAGE ON SCHEMA dpone_seed TO {{seeder}}, {{issuer}}, {{observer}};
GRANT EXECUTE ON FUNCTION dpone_seed.seed(text) TO {{seeder}};
GRANT EXECUTE ON FUNCTION dpone_seed.open_gate(text, text, text), dpone_seed.close_gate(text, text) TO {{issuer}};
GRANT SELECT ON dpone_seed.gates, dpone_seed.schemas TO {{observer}};
RESET ROLE;
COMMIT;

-- name: allow_schema
-- One schema in which fixtures are seeded. What is seeded there can be extracted by attempts and sealed by the observer.
GRANT USAGE, CREATE ON SCHEMA {{schema}} TO {{owner}};
GRANT USAGE ON SCHEMA {{schema}} TO {{observer}}, {{source_role}};
ALTER DEFAULT PRIVILEGES FOR ROLE {{owner}} IN SCHEMA {{schema}} GRANT SELECT ON TABLES TO {{observer}}, {{source_role}};
INSERT INTO dpone_seed.schemas (schema_name) VALUES ({{schema_text}}) ON CONFLICT DO NOTHING;

-- name: installed
-- What stands in the server's catalogs of the routine, its owner and its rights, one line a fact, to be compared with what was rendered.
SELECT 'setting|encoding|' || getdatabaseencoding()
UNION ALL
SELECT 'owner|' || (r.rolcanlogin OR r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolreplication OR r.rolbypassrls)
    || '|' || (SELECT count(*) FROM pg_auth_members AS m WHERE m.roleid = r.oid OR m.member = r.oid)
FROM pg_roles AS r WHERE r.rolname = %(owner)s
UNION ALL
SELECT 'schema|' || pg_get_userbyid(n.nspowner) FROM pg_namespace AS n WHERE n.nspname = 'dpone_seed'
UNION ALL
SELECT 'grant|schema|' || CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee)::text END || '|' || a.privilege_type
FROM pg_namespace AS n CROSS JOIN LATERAL aclexplode(n.nspacl) AS a
WHERE n.nspname = 'dpone_seed' AND a.grantee <> n.nspowner
UNION ALL
SELECT 'relation|' || c.relname || '|' || c.relkind::text || '|' || pg_get_userbyid(c.relowner) || '|' || c.relrowsecurity || '|' || c.relhasrules
FROM pg_class AS c INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = 'dpone_seed' AND c.relkind <> 'i'
UNION ALL
SELECT 'grant|' || c.relname || '|' || CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee)::text END || '|' || a.privilege_type
FROM pg_class AS c INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace CROSS JOIN LATERAL aclexplode(c.relacl) AS a
WHERE n.nspname = 'dpone_seed' AND a.grantee <> c.relowner
UNION ALL
SELECT 'column|' || c.relname || '|' || a.attnum || '|' || a.attname || '|' || format_type(a.atttypid, a.atttypmod) || '|' || a.attnotnull
    || '|' || (a.attacl IS NOT NULL)
FROM pg_attribute AS a INNER JOIN pg_class AS c ON c.oid = a.attrelid INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = 'dpone_seed' AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT 'constraint|' || k.conrelid::regclass::text || '|' || k.contype::text || '|' || k.conname || '|' || k.convalidated
FROM pg_constraint AS k INNER JOIN pg_namespace AS n ON n.oid = k.connamespace
WHERE n.nspname = 'dpone_seed' AND k.contype <> 'n'
UNION ALL
SELECT 'trigger|' || c.relname || '|' || t.tgname || '|' || t.tgenabled::text || '|' || t.tgtype || '|' || p.proname
FROM pg_trigger AS t INNER JOIN pg_class AS c ON c.oid = t.tgrelid INNER JOIN pg_namespace AS n ON n.oid = c.relnamespace
INNER JOIN pg_proc AS p ON p.oid = t.tgfoid
WHERE n.nspname = 'dpone_seed' AND NOT t.tgisinternal
UNION ALL
SELECT 'routine|' || p.proname || '|' || pg_get_function_identity_arguments(p.oid) || '|' || pg_get_userbyid(p.proowner) || '|' || p.prosecdef
    || '|' || coalesce(array_to_string(p.proconfig, ';'), '') || '|' || encode(sha256(convert_to(p.prosrc, 'UTF8')), 'hex')
FROM pg_proc AS p INNER JOIN pg_namespace AS n ON n.oid = p.pronamespace
WHERE n.nspname = 'dpone_seed'
UNION ALL
SELECT 'grant|' || p.proname || '|' || CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(a.grantee)::text END || '|' || a.privilege_type
FROM pg_proc AS p INNER JOIN pg_namespace AS n ON n.oid = p.pronamespace
CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
WHERE n.nspname = 'dpone_seed' AND a.grantee <> p.proowner;

-- name: prepared_transactions
-- How many transactions of this server may go on without a session; by its own setting, which only a restart changes.
SELECT current_setting('max_prepared_transactions')::int;

-- name: open_gate
-- The issuer, in the transaction that makes the role.
SELECT dpone_seed.open_gate(%(operation_key)s, %(name)s, %(plan_sha256)s);

-- name: wait_for_the_gate
-- How long a closing waits for a seed that was accepted; after that its session is ended.
SET LOCAL lock_timeout = {{milliseconds}};
SET LOCAL statement_timeout = 0;

-- name: close_gate
-- The conflicting lock: waits for who seeds, and keeps out who comes after.
SELECT dpone_seed.close_gate(%(operation_key)s, %(name)s);

-- name: gate
-- What the observer sees of one gate.
SELECT operation_key, plan_sha256, state, applied_rows, content_sha256, table_oid::bigint FROM dpone_seed.gates WHERE role_name = %(name)s;

-- name: gates_not_closed
-- Gates behind which somebody may still seed.
SELECT role_name FROM dpone_seed.gates WHERE state <> 'CLOSED' ORDER BY role_name;

-- name: own_rights
-- What a role that was issued for a seed may execute of the routine, by its own words: to seed, and neither to open nor to close a gate.
SELECT has_function_privilege('dpone_seed.seed(text)', 'EXECUTE'),
    has_function_privilege('dpone_seed.open_gate(text, text, text)', 'EXECUTE')
        OR has_function_privilege('dpone_seed.close_gate(text, text)', 'EXECUTE')
        OR has_table_privilege('dpone_seed.gates', 'SELECT, INSERT, UPDATE, DELETE')
        OR has_any_column_privilege('dpone_seed.gates', 'SELECT, INSERT, UPDATE');

-- name: seed
-- What the attempt calls.
SELECT dpone_seed.seed(%(plan)s);
