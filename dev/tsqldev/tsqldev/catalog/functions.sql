-- Metadata builtins of T-SQL, called by the compiler as sys.<name>; an absent argument is NULL.

-- The parts of `[db].[schema].[name]`, outermost first; NULL where the text is no name. An omitted part is ''.
create function meta.parse_name(name text) returns text[] immutable strict language plpgsql as $$
declare parts text[] := '{}'; part text := ''; at int := 1; c text; closing text; quoted boolean := false;
begin
    name := btrim(name, ' ');
    while at <= length(name) loop
        c := substr(name, at, 1);
        if closing is not null then
            if c = closing then
                if substr(name, at + 1, 1) = closing then part := part || c; at := at + 1;
                else closing := null; end if;
            else part := part || c; end if;
        elsif c = '[' and btrim(part) = '' and not quoted then closing := ']'; quoted := true; part := '';
        elsif c = '"' and btrim(part) = '' and not quoted then closing := '"'; quoted := true; part := '';
        elsif c = '.' then
            parts := parts || case when quoted then part else btrim(part, ' ') end; part := ''; quoted := false;
        elsif quoted and c <> ' ' then return null;
        elsif not quoted then part := part || c;
        end if;
        at := at + 1;
    end loop;
    if closing is not null then return null; end if;
    return parts || case when quoted then part else btrim(part, ' ') end;
end $$;

create function meta.database_named(wanted text) returns int stable language sql as
$$ select case when coalesce(wanted, '') = '' then meta.current_db()
   else (select database_id from meta.databases where key = meta.fold(wanted)) end $$;

create function meta.default_schema(db int) returns text stable language sql as $$
    select coalesce((select default_schema from meta.principals
        where database_id = db and principal_id = meta.caller_in(db)), 'dbo')
$$;

create function meta.sees_object(db int, object int) returns boolean stable language sql as $$
    select meta.sees_everything(db) or object in (select meta.visible_objects(db))
$$;

-- The object of a name, without regard to who asks: in the schema named, or the default schema, then dbo.
create function meta.find_object(db int, in_schema text, wanted text) returns int stable language sql as $$
    select o.object_id from meta.objects o join meta.schemas s using (database_id, schema_id)
    where o.database_id = db and o.key = meta.fold(wanted)
      and (case when coalesce(in_schema, '') <> '' then s.key = meta.fold(in_schema)
           else s.key in (meta.fold(meta.default_schema(db)), 'dbo') end)
    order by s.key = meta.fold(meta.default_schema(db)) desc
    limit 1
$$;

-- #temp tables have numbers in PostgreSQL; their own name is a comment on them.
create function meta.temporary_object(wanted text) returns int stable language sql as $$
    select c.oid::bigint::int from pg_class c
    where c.relnamespace = pg_my_temp_schema() and c.relkind = 'r'
      and meta.fold(obj_description(c.oid, 'pg_class')) = meta.fold(wanted)
    order by c.oid desc limit 1
$$;

create function sys.object_id(name text, kind text) returns int stable language plpgsql as $$
declare parts text[] := meta.parse_name(name); n int := cardinality(parts); db int; found int; found_type text;
begin
    if parts is null or n > 3 then return null; end if;
    if parts[n] like '#%' then return meta.temporary_object(parts[n]); end if;
    db := meta.database_named(case when n = 3 then parts[1] end);
    if db is null then return null; end if;
    found := meta.find_object(db, case when n >= 2 then parts[n - 1] end, parts[n]);
    if found is null or not meta.sees_object(db, found) then
        return (select v.object_id from meta.system_objects v
            where n >= 2 and v.schema_key = meta.fold(parts[n - 1]) and v.key = meta.fold(parts[n])
              and (kind is null or v.type = upper(rtrim(kind))));
    end if;
    if kind is not null then
        select type into found_type from meta.objects where object_id = found;
        if found_type <> upper(rtrim(kind)) then return null; end if;
    end if;
    return found;
end $$;

create function sys.object_name(id int, db int) returns text stable language sql as $$
    select coalesce(
        (select name from meta.objects o where o.object_id = id and o.database_id = coalesce(db, meta.current_db())
            and meta.sees_object(o.database_id, o.object_id)),
        (select name from meta.server_triggers t where t.object_id = id and meta.may('SERVER', 0, 'VIEW ANY DEFINITION')),
        (select name from meta.system_objects v where v.object_id = id))
$$;

create function sys.object_schema_name(id int, db int) returns text stable language sql as $$
    select coalesce(
        (select s.name from meta.objects o join meta.schemas s using (database_id, schema_id)
            where o.object_id = id and o.database_id = coalesce(db, meta.current_db())
            and meta.sees_object(o.database_id, o.object_id)),
        (select schema_name from meta.system_objects v where v.object_id = id))
$$;

create function sys.object_definition(id int) returns text stable language sql as $$
    select coalesce(
        (select definition from meta.modules where object_id = id),
        (select definition from meta.check_constraints where object_id = id),
        (select definition from meta.default_constraints where object_id = id))
    where exists (select from meta.objects where object_id = id and database_id = meta.current_db())
      and meta.reads_definition(meta.current_db(), id)
$$;

create function sys.schema_id(name text) returns int stable language sql as $$
    select schema_id from meta.schemas where database_id = meta.current_db()
      and key = meta.fold(coalesce($1, meta.default_schema(meta.current_db())))
$$;

create function sys.schema_name(id int) returns text stable language sql as $$
    select case when id is null then meta.default_schema(meta.current_db())
        else (select name from meta.schemas where database_id = meta.current_db() and schema_id = id) end
$$;

create function sys.db_id(name text) returns smallint stable language sql as $$
    select case when $1 is null then meta.current_db()
        else (select database_id from meta.databases where key = meta.fold($1)) end::smallint
$$;

create function sys.db_name(id int) returns text stable language sql as
$$ select name from meta.databases where database_id = coalesce(id, meta.current_db()) $$;

create function sys.type_id(name text) returns int stable language sql as $$
    select user_type_id from meta.types where meta.types.name =
        lower((meta.parse_name(type_id.name))[cardinality(meta.parse_name(type_id.name))])
$$;

create function sys.type_name(id int) returns text stable language sql as
$$ select name from meta.types where user_type_id = id $$;

create function sys.col_name(object int, col int) returns text stable language sql as $$
    select name from meta.columns where object_id = object and column_id = col
      and meta.sees_object((select database_id from meta.objects where object_id = object), object)
$$;

create function sys.col_length(object text, col text) returns smallint stable language sql as $$
    select meta.max_length(c.type_name, c.length, c.precision, c.scale) from meta.columns c
    where c.object_id = sys.object_id(object, null) and c.key = meta.fold(col)
$$;

create function sys.columnproperty(object int, col text, property text) returns int stable language sql as $$
    select case lower(property)
        when 'allowsnull' then is_nullable::int
        when 'columnid' then column_id
        when 'iscomputed' then (computed is not null)::int
        when 'isidentity' then is_identity::int
        when 'isidnotforrepl' then 0
        when 'ishidden' then 0
        when 'isrowguidcol' then is_rowguidcol::int
        when 'issparse' then is_sparse::int
        when 'generatedalwaystype' then 0
        when 'ordinal' then column_id
        when 'precision' then meta.type_precision(type_name, length, precision)
        when 'scale' then meta.type_scale(type_name, scale)
        when 'charmaxlen' then case when length is not null then length end
        when 'usesansitrim' then case when type_name in ('char', 'varchar', 'binary', 'varbinary') then 1 end
    end from meta.columns where object_id = object and key = meta.fold(col) and meta.sees_object(meta.current_db(), object)
$$;

create function sys.objectproperty(id int, property text) returns int stable language sql as $$
    select case lower(property)
        when 'istable' then (type = 'U')::int
        when 'isusertable' then (type = 'U')::int
        when 'isview' then (type = 'V')::int
        when 'isprocedure' then (type = 'P')::int
        when 'istrigger' then (type = 'TR')::int
        when 'isprimarykey' then (type = 'PK')::int
        when 'isforeignkey' then (type = 'F')::int
        when 'ischeckcnst' then (type = 'C')::int
        when 'isdefaultcnst' then (type = 'D')::int
        when 'isuniquecnst' then (type = 'UQ')::int
        when 'isconstraint' then (type in ('PK', 'F', 'C', 'D', 'UQ'))::int
        when 'ismsshipped' then 0
        when 'issystemtable' then 0
        when 'isschemabound' then coalesce((select is_schema_bound from meta.modules m where m.object_id = id), false)::int
        when 'isencrypted' then case when exists (select from meta.modules m where m.object_id = id) then 0 end
        when 'execisansinullson' then (select uses_ansi_nulls from meta.modules m where m.object_id = id)::int
        when 'execisquotedidenton' then (select uses_quoted_identifier from meta.modules m where m.object_id = id)::int
        when 'execistriggerdisabled' then (select is_disabled from meta.triggers t where t.object_id = id)::int
        when 'execisinsteadoftrigger' then (select is_instead_of from meta.triggers t where t.object_id = id)::int
        when 'tablehasprimarykey' then exists (select from meta.indexes i where i.object_id = id and i.is_primary_key)::int
        when 'tablehasidentity' then exists (select from meta.columns c where c.object_id = id and c.is_identity)::int
        when 'tablehasclustindex' then exists (select from meta.indexes i where i.object_id = id and i.index_id = 1)::int
        when 'tablehasindex' then exists (select from meta.indexes i where i.object_id = id)::int
        when 'tablehasforeignkey' then exists (select from meta.foreign_keys f where f.parent_object_id = id)::int
        when 'tablehasforeignref' then exists (select from meta.foreign_keys f where f.referenced_object_id = id)::int
        when 'tabletemporaltype' then 0
        when 'ownerid' then coalesce(principal_id, (select s.principal_id from meta.schemas s
            where s.database_id = o.database_id and s.schema_id = o.schema_id))
        when 'schemaid' then schema_id
        when 'cnstisdisabled' then (select is_disabled from (
            select object_id, is_disabled from meta.check_constraints
            union all select object_id, is_disabled from meta.foreign_keys) k where k.object_id = id)::int
        when 'cnstisnottrusted' then (select is_not_trusted from (
            select object_id, is_not_trusted from meta.check_constraints
            union all select object_id, is_not_trusted from meta.foreign_keys) k where k.object_id = id)::int
    end from meta.objects o where object_id = id and database_id = meta.current_db() and meta.sees_object(database_id, object_id)
$$;

create function sys.indexproperty(object int, index_name text, property text) returns int stable language sql as $$
    select case lower(property)
        when 'indexid' then index_id
        when 'isunique' then is_unique::int
        when 'isclustered' then (type in (1, 5))::int
        when 'isdisabled' then is_disabled::int
        when 'isfulltextkey' then 0
        when 'ishypothetical' then 0
        when 'isstatistics' then 0
        when 'iscolumnstore' then (type in (5, 6))::int
        when 'indexfillfactor' then fill_factor
        when 'indexdepth' then 1
        when 'ispadindex' then is_padded::int
        when 'ispagelockdisallowed' then (not allow_page_locks)::int
        when 'isrowlockdisallowed' then (not allow_row_locks)::int
    end from meta.indexes where object_id = object and key = meta.fold(index_name)
      and meta.sees_object(meta.current_db(), object)
$$;

create function sys.index_col(object text, index_number int, ordinal int) returns text stable language sql as $$
    select c.name from meta.index_columns k join meta.columns c using (object_id, column_id)
    where k.object_id = sys.object_id(object, null) and k.index_id = index_number and k.key_ordinal = ordinal and ordinal > 0
$$;

-- A database's option, with the value that a new database has.
create function meta.option(options jsonb, name text, otherwise text) returns text immutable language sql as
$$ select coalesce(options ->> name, otherwise) $$;

create function sys.databasepropertyex(name text, property text) returns text stable language sql as $$
    select case lower(property)
        when 'collation' then d.collation_name
        when 'status' then 'ONLINE'
        when 'updateability' then case meta.option(options, 'is_read_only', '0') when '1' then 'READ_ONLY' else 'READ_WRITE' end
        when 'useraccess' then meta.option(options, 'user_access', 'MULTI_USER')
        when 'recovery' then meta.option(options, 'recovery_model', 'FULL')
        when 'version' then '957'
        when 'isansinullsenabled' then meta.option(options, 'is_ansi_nulls_on', '0')
        when 'isansinulldefault' then meta.option(options, 'is_ansi_null_default_on', '0')
        when 'isquotedidentifiersenabled' then meta.option(options, 'is_quoted_identifier_on', '0')
        when 'isautoclose' then '0'
        when 'isautoshrink' then '0'
        when 'isinstandby' then '0'
        when 'ismemoryoptimizedelevatetosnapshotenabled' then '0'
        when 'iscleanlyshutdown' then null
        when 'lcid' then '1033'
        when 'sqlsortorder' then '52'
    end from meta.databases d where d.key = meta.fold(databasepropertyex.name)
$$;

create function sys.collationproperty(collation_name text, property text) returns int stable language sql as $$
    select case when collation_name ~* '^(SQL_)?Latin1_General' then case lower(property)
        when 'codepage' then 1252
        when 'lcid' then 1033
        when 'version' then case when collation_name like '%\_100\_%' then 2 else 0 end
        when 'comparisonstyle' then case when collation_name ~* 'BIN2?$' then 0
            when collation_name ~* '_CI_AS' then 196609 when collation_name ~* '_CS_AS' then 196608 end
    end end
$$;

create function sys.serverproperty(property text) returns text stable language sql as $$
    select case lower(property)
        when 'productversion' then '16.0.4135.0'
        when 'productmajorversion' then '16'
        when 'productminorversion' then '0'
        when 'productbuild' then '4135'
        when 'productlevel' then 'RTM'
        when 'productupdatelevel' then null
        when 'edition' then 'Developer Edition (64-bit), emulation on PostgreSQL'
        when 'editionid' then '-2117995310'
        when 'engineedition' then '3'
        when 'collation' then 'SQL_Latin1_General_CP1_CI_AS'
        when 'collationid' then '872468488'
        when 'comparisonstyle' then '196609'
        when 'lcid' then '1033'
        when 'machinename' then 'TSQLDEV'
        when 'servername' then 'TSQLDEV'
        when 'computernamephysicalnetbios' then 'TSQLDEV'
        when 'instancename' then null
        when 'isclustered' then '0'
        when 'ishadrenabled' then '0'
        when 'isintegratedsecurityonly' then '0'
        when 'issingleuser' then '0'
        when 'isfulltextinstalled' then '0'
        when 'isxtpsupported' then '0'
        when 'ispolybaseinstalled' then '0'
        when 'islocaldb' then '0'
        when 'isadvancedanalyticsinstalled' then '0'
        when 'isbigdatacluster' then '0'
        when 'istempdbmetadatamemoryoptimized' then '0'
        when 'isexternalauthenticationonly' then '0'
        when 'suspendeddatabasecount' then '0'
        when 'licensetype' then 'DISABLED'
        when 'numlicenses' then null
        when 'processid' then pg_backend_pid()::text
        when 'sqlcharset' then '1'
        when 'sqlcharsetname' then 'iso_1'
        when 'sqlsortorder' then '52'
        when 'sqlsortordername' then 'nocase_iso'
        when 'filestreamconfiguredlevel' then '0'
        when 'filestreameffectivelevel' then '0'
    end
$$;

create function sys.suser_id(login text) returns int stable language sql as $$
    select case when login is null then meta.setting('login')
        else (select principal_id from meta.logins where key = meta.fold(login)) end
$$;

create function sys.suser_sid(login text, flags int) returns bytea stable language sql as $$
    select case when login is null then (select sid from meta.logins where principal_id = meta.setting('login'))
        else (select sid from meta.logins where key = meta.fold(login)) end
$$;

create function sys.suser_sname(login_sid bytea) returns text stable language sql as $$
    select case when login_sid is null then (select name from meta.logins where principal_id = meta.setting('login'))
        else (select name from meta.logins where sid = login_sid) end
$$;

create function sys.original_login() returns text stable language sql as
$$ select name from meta.logins where principal_id = meta.setting('original_login') $$;

create function sys.suser_name(id int) returns text stable language sql as
$$ select name from meta.logins where principal_id = coalesce(id, meta.setting('login')) $$;

create function sys.user_name(id int) returns text stable language sql as $$
    select name from meta.principals where database_id = meta.current_db()
      and principal_id = coalesce(id, meta.setting('user'))
$$;

create function sys.database_principal_id(name text) returns int stable language sql as $$
    select case when $1 is null then meta.setting('user') else (select p.principal_id from meta.principals p
        where p.database_id = meta.current_db() and p.key = meta.fold(database_principal_id.name)) end
$$;

create function sys.is_member(role text) returns int stable language sql as $$
    select case when meta.setting('user') = 1 and p.key = 'db_owner' then 1
        else (p.principal_id in (select meta.user_tokens(meta.current_db(), meta.setting('user'))))::int end
    from meta.principals p where p.database_id = meta.current_db() and p.type = 'R' and p.key = meta.fold(role)
$$;

create function sys.is_rolemember(role text, principal text) returns int stable language sql as $$
    select (p.principal_id in (select meta.user_tokens(meta.current_db(), coalesce(m.principal_id, meta.setting('user')))))::int
    from meta.principals p
    left join meta.principals m on m.database_id = p.database_id and m.key = meta.fold(principal)
    where p.database_id = meta.current_db() and p.type = 'R' and p.key = meta.fold(role)
      and (principal is null or m.principal_id is not null)
$$;

create function sys.is_srvrolemember(role text, login text) returns int stable language sql as $$
    select (r.principal_id in (select meta.login_tokens(case when login is null then meta.server_login() else l.principal_id end)))::int
    from meta.logins r left join meta.logins l on l.key = meta.fold(login)
    where r.type = 'R' and r.key = meta.fold(role) and (login is null or l.principal_id is not null)
$$;

create function sys.has_dbaccess(name text) returns int stable language sql as $$
    select (meta.caller_in(d.database_id) is not null)::int from meta.databases d where d.key = meta.fold(has_dbaccess.name)
$$;

-- NULL where the securable or the permission does not exist; otherwise what a statement would be checked against.
create function sys.has_perms_by_name(securable text, class_name text, permission text, sub text, sub_class text)
returns int stable language plpgsql as $$
declare
    kind text := upper(rtrim(class_name)); wanted text := upper(rtrim(permission)); parts text[]; n int;
    db int := meta.current_db(); usr int; major int;
begin
    if kind is null then
        if securable is not null then return null; end if;
        kind := 'SERVER';
    end if;
    if kind = 'SERVER PRINCIPAL' then kind := 'LOGIN'; end if;
    if wanted = 'ANY' then
        return (select max(sys.has_perms_by_name(securable, class_name, b.permission, sub, sub_class))
                from meta.builtin_permissions b where b.class_desc = kind);
    end if;
    if not exists (select from meta.builtin_permissions b where b.class_desc = kind and b.permission = wanted) then
        return null;
    end if;
    parts := meta.parse_name(securable);
    n := cardinality(parts);
    if kind = 'SERVER' then
        if securable is not null then return null; end if;
        return meta.server_permission(meta.server_login(), wanted)::int;
    elsif kind = 'DATABASE' then
        db := meta.database_named(parts[n]);
        major := 0;
        if wanted = 'CREATE DATABASE' and db <> 1 then return null; end if;
    elsif kind = 'SCHEMA' then
        db := meta.database_named(case when n = 2 then parts[1] end);
        select schema_id into major from meta.schemas where database_id = db and key = meta.fold(parts[n]);
    elsif kind = 'OBJECT' then
        db := meta.database_named(case when n = 3 then parts[1] end);
        major := meta.find_object(db, case when n >= 2 then parts[n - 1] end, parts[n]);
        if major is null and n >= 2 and exists (select from meta.system_objects v
                where v.schema_key = meta.fold(parts[n - 1]) and v.key = meta.fold(parts[n])) then
            return (wanted = 'SELECT' or meta.server_permission(meta.server_login(), 'CONTROL SERVER'))::int;
        end if;
    elsif kind in ('USER', 'ROLE') then
        select principal_id into major from meta.principals
        where database_id = db and key = meta.fold(parts[n]) and type = case kind when 'USER' then 'S' else 'R' end;
    elsif kind in ('LOGIN', 'SERVER ROLE') then
        select principal_id into major from meta.logins
        where key = meta.fold(parts[n]) and (type = 'R') = (kind = 'SERVER ROLE');
    else
        return null;
    end if;
    if db is null or major is null then return null; end if;
    usr := meta.caller_in(db);
    if usr is null and kind not in ('LOGIN', 'SERVER ROLE') then
        return case when kind = 'DATABASE' then 0 end;
    end if;
    return meta.has_permission(meta.server_login(), db, usr, kind, major, wanted)::int;
end $$;

create function sys.ident_seed(object text) returns numeric stable language sql as
$$ select seed_value from meta.columns where object_id = sys.object_id(object, null) and is_identity $$;

create function sys.ident_incr(object text) returns numeric stable language sql as
$$ select increment_value from meta.columns where object_id = sys.object_id(object, null) and is_identity $$;

create function sys.ident_current(object text) returns numeric volatile language plpgsql as $$
declare id int := sys.object_id(object, null); answer numeric;
begin
    if id is null or not exists (select from meta.columns where object_id = id and is_identity) then return null; end if;
    execute format('select last_value from data.s%s', id) into answer;
    return answer;
end $$;
