-- Who may what: the one evaluator of rights, behind every check, HAS_PERMS_BY_NAME and the visibility of metadata.
--
-- The caller is in settings of the session: tsql.db, tsql.login (effective login, 0 = none), tsql.user (effective user of
-- tsql.db), tsql.server_scope ('0' while EXECUTE AS USER confines the session to its database).

-- (class, permission) is held where one of (at_class, at_permission) is granted.
create table meta.permission_closure (
    class_desc text not null,
    permission text not null,
    at_class_desc text not null,
    at_class smallint not null,
    at_permission text not null,
    primary key (class_desc, permission, at_class_desc, at_permission)
);

create table meta.fixed_role_permissions (
    database_level boolean not null,
    role_id int not null,
    permission text not null,
    state char(1) not null,
    primary key (database_level, role_id, permission)
);

create function meta.setting(name text) returns int stable language sql as
$$ select coalesce(nullif(current_setting('tsql.' || name, true), ''), '0')::int $$;

create function meta.current_db() returns int stable language sql as $$ select meta.setting('db') $$;

-- The effective login for server-level rights: none inside EXECUTE AS USER.
create function meta.server_login() returns int stable language sql as
$$ select case when current_setting('tsql.server_scope', true) = '0' then 0 else meta.setting('login') end $$;

create function meta.login_tokens(login int) returns setof int stable language sql as $$
    with recursive tokens(id) as (
        select login where login > 0
        union select 2 where login > 0
        union select m.role_id from meta.role_members m join tokens on m.member_id = tokens.id where m.database_id = 0
    ) select id from tokens
$$;

create function meta.user_tokens(db int, usr int) returns setof int stable language sql as $$
    with recursive tokens(id) as (
        select usr
        union select 0
        union select m.role_id from meta.role_members m join tokens on m.member_id = tokens.id where m.database_id = db
    ) select id from tokens
$$;

create function meta.is_sysadmin(login int) returns boolean stable language sql as
$$ select login = 1 or exists (select from meta.login_tokens(login) t where t = 3) $$;

-- The user that a login is in a database: dbo for sysadmin and for the owner, its own user, guest where guest may
-- connect; NULL = it cannot enter.
create function meta.user_of(db int, login int) returns int stable language plpgsql as $$
declare found int; login_sid bytea;
begin
    if meta.is_sysadmin(login) then return 1; end if;
    select sid into login_sid from meta.logins where principal_id = login;
    if exists (select from meta.databases where database_id = db and owner_sid = login_sid) then return 1; end if;
    select principal_id into found from meta.principals where database_id = db and type = 'S' and sid = login_sid;
    if found is not null then return found; end if;
    if exists (select from meta.permissions where database_id = db and class = 0 and grantee = 2
               and permission = 'CONNECT' and state in ('G', 'W')) then return 2; end if;
    if meta.server_permission(login, 'CONNECT ANY DATABASE') then return 2; end if;
    return null;
end $$;

-- A right at the level of the server.
create function meta.server_permission(login int, wanted text) returns boolean stable language plpgsql as $$
declare denied boolean; granted boolean;
begin
    if login <= 0 then return false; end if;
    if meta.is_sysadmin(login) then return true; end if;
    select coalesce(bool_or(p.state = 'D'), false), coalesce(bool_or(p.state in ('G', 'W')), false)
    into denied, granted
    from (
        select permission, state, grantee from meta.permissions where database_id = 0 and class = 100
        union all select permission, state, role_id from meta.fixed_role_permissions where not database_level
    ) p
    join meta.permission_closure c on c.class_desc = 'SERVER' and c.permission = wanted and c.at_permission = p.permission
    where p.grantee in (select meta.login_tokens(login));
    return granted and not denied;
end $$;

-- A right on a securable: class_desc as in meta.builtin_permissions; major: object, schema, principal id (0 for a
-- database or the server); login 0 = no rights from the server.
create function meta.has_permission(login int, db int, usr int, class_name text, major int, wanted text)
returns boolean stable language plpgsql as $$
declare
    denied boolean; granted boolean; in_schema int; owner int; user_tokens int[]; login_tokens int[];
begin
    if class_name = 'SERVER' then return meta.server_permission(login, wanted); end if;
    if meta.is_sysadmin(login) then return true; end if;
    if class_name in ('LOGIN', 'SERVER ROLE', 'ENDPOINT') then
        if class_name = 'LOGIN' and major = login and wanted in ('VIEW DEFINITION', 'IMPERSONATE') then return true; end if;
        if class_name = 'SERVER ROLE' and exists (select from meta.logins l where l.principal_id = major
                and l.owning_principal_id in (select meta.login_tokens(login))) then return true; end if;
    else
        if usr is null then return false; end if;
        if usr = 1 then return true; end if;
    end if;
    select coalesce(array_agg(t), '{}') into user_tokens from meta.user_tokens(db, usr) t;
    select coalesce(array_agg(t), '{}') into login_tokens from meta.login_tokens(login) t;
    if class_name = 'OBJECT' then
        select o.schema_id, coalesce(o.principal_id, s.principal_id) into in_schema, owner
        from meta.objects o join meta.schemas s using (database_id, schema_id) where o.object_id = major;
    elsif class_name = 'SCHEMA' then
        select s.schema_id, s.principal_id into in_schema, owner
        from meta.schemas s where s.database_id = db and s.schema_id = major;
    elsif class_name in ('USER', 'ROLE') then
        if class_name = 'USER' and major = usr and wanted in ('VIEW DEFINITION', 'IMPERSONATE') then return true; end if;
        select p.owning_principal_id into owner from meta.principals p
        where p.database_id = db and p.principal_id = major and p.type = 'R';
    end if;
    if owner is not null and owner = any (user_tokens) then return true; end if;
    if class_name = 'OBJECT' and exists (select from meta.schemas s where s.database_id = db and s.schema_id = in_schema
            and s.principal_id = any (user_tokens)) then return true; end if;
    select coalesce(bool_or(p.state = 'D'), false), coalesce(bool_or(p.state in ('G', 'W')), false)
    into denied, granted
    from meta.permission_closure c
    join (
        select q.database_id, q.class, q.major_id, q.permission, q.state, q.grantee from meta.permissions q
        where q.database_id in (0, db) and q.minor_id = 0
        union all select db, 0, 0, f.permission, f.state, f.role_id
        from meta.fixed_role_permissions f where f.database_level
        union all select 0, 100, 0, f.permission, f.state, f.role_id
        from meta.fixed_role_permissions f where not f.database_level
    ) p on p.class = c.at_class and p.permission = c.at_permission
    where c.class_desc = class_name and c.permission = wanted
      and case when c.at_class in (100, 101, 105) then p.database_id = 0 and p.grantee = any (login_tokens)
               else p.database_id = db and p.grantee = any (user_tokens) end
      and p.major_id = case c.at_class_desc when 'SERVER' then 0 when 'DATABASE' then 0
          when 'SCHEMA' then in_schema else major end;
    return granted and not denied;
end $$;

-- The right of the session's own caller.
create function meta.may(class_name text, major int, wanted text) returns boolean stable language sql as
$$ select meta.has_permission(meta.server_login(), meta.current_db(), meta.setting('user'), class_name, major, wanted) $$;

-- The session's user in another database (three-part names): its own there when it is the current one.
create function meta.caller_in(db int) returns int stable language sql as $$
    select case when db = meta.current_db() then meta.setting('user')
        when meta.server_login() > 0 then meta.user_of(db, meta.server_login()) end
$$;

create function meta.sees_all(db int) returns boolean stable language sql as $$
    select meta.caller_in(db) = 1
        or meta.has_permission(meta.server_login(), db, meta.caller_in(db), 'DATABASE', 0, 'VIEW DEFINITION')
$$;

-- Whether no object of the database is hidden from the caller: asked once a query, it spares the rest for most callers.
create function meta.sees_everything(db int) returns boolean stable language plpgsql as $$
declare usr int := meta.caller_in(db); login int := meta.server_login();
begin
    if usr is null then return false; end if;
    if usr = 1 or meta.is_sysadmin(login) then return true; end if;
    return meta.has_permission(login, db, usr, 'DATABASE', 0, 'VIEW DEFINITION') and not exists (
        select from meta.permissions d where d.database_id = db and d.class in (1, 3) and d.state = 'D'
          and d.permission in ('VIEW DEFINITION', 'CONTROL') and d.grantee in (select meta.user_tokens(db, usr)));
end $$;

-- Objects on which the caller holds at least one of the rights wanted; a constraint, a key or a trigger goes with its
-- table. One pass over the objects: a right at a time would take a second for a hundred tables.
create function meta.objects_with(db int, wanted text[]) returns setof int stable language plpgsql as $$
declare usr int := meta.caller_in(db); login int := meta.server_login(); tokens int[]; login_tokens int[];
begin
    if usr is null then return; end if;
    if meta.sees_everything(db) then
        return query select object_id from meta.objects where database_id = db;
        return;
    end if;
    select array_agg(t) into tokens from meta.user_tokens(db, usr) t;
    select coalesce(array_agg(t), '{}') into login_tokens from meta.login_tokens(login) t;
    return query
    with held as materialized (
        select distinct c.permission, c.at_class, case when c.at_class in (1, 3) then p.major_id else 0 end as major,
            p.state = 'D' as denied
        from meta.permission_closure c
        join (
            select q.database_id, q.class, q.major_id, q.permission, q.state, q.grantee from meta.permissions q
            where q.database_id in (0, db) and q.minor_id = 0
            union all select db, 0, 0, f.permission, f.state, f.role_id
            from meta.fixed_role_permissions f where f.database_level
            union all select 0, 100, 0, f.permission, f.state, f.role_id
            from meta.fixed_role_permissions f where not f.database_level
        ) p on p.class = c.at_class and p.permission = c.at_permission
        where c.class_desc = 'OBJECT' and c.permission = any (wanted)
          and case when c.at_class = 100 then p.database_id = 0 and p.grantee = any (login_tokens)
                   else p.database_id = db and p.grantee = any (tokens) end
    )
    select o.object_id from meta.objects o
    join meta.schemas s using (database_id, schema_id)
    left join meta.objects a on a.object_id = o.parent_object_id
    where o.database_id = db
      and (coalesce(a.principal_id, o.principal_id, s.principal_id) = any (tokens) or s.principal_id = any (tokens)
        or exists (
            select from held h
            where (h.at_class in (0, 100) or (h.at_class = 3 and h.major = o.schema_id)
                or (h.at_class = 1 and h.major = coalesce(a.object_id, o.object_id)))
              and case when coalesce(a.type, o.type) = 'P'
                then h.permission in ('EXECUTE', 'VIEW DEFINITION', 'ALTER', 'CONTROL', 'TAKE OWNERSHIP')
                else h.permission <> 'EXECUTE' end
            group by h.permission having not bool_or(h.denied)));
end $$;

-- Objects whose metadata the caller may see: any right on the object, its schema or database makes it visible.
create function meta.visible_objects(db int) returns setof int stable language sql as $$
    select object_id from meta.objects_with(db, array['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'EXECUTE', 'REFERENCES',
        'VIEW DEFINITION', 'ALTER', 'CONTROL', 'TAKE OWNERSHIP']) as w(object_id)
    except
    select d.major_id from meta.permissions d
    where d.database_id = db and d.class = 1 and d.permission in ('VIEW DEFINITION', 'CONTROL') and d.state = 'D'
      and meta.caller_in(db) <> 1 and not meta.is_sysadmin(meta.server_login())
      and d.grantee in (select meta.user_tokens(db, meta.caller_in(db)))
$$;

-- Objects whose text the caller may read.
create function meta.readable_objects(db int) returns setof int stable language sql as
$$ select meta.objects_with(db, array['VIEW DEFINITION']) $$;

-- Whether the caller may read the text of modules and constraints of an object.
create function meta.reads_definition(db int, object int) returns boolean stable language sql as $$
    select meta.has_permission(meta.server_login(), db, meta.caller_in(db), 'OBJECT',
        (select case when type in ('TR', 'C', 'D') then coalesce(nullif(parent_object_id, 0), object_id) else object_id end
         from meta.objects where object_id = object), 'VIEW DEFINITION')
$$;

create function meta.visible_principals(db int) returns setof int stable language plpgsql as $$
declare usr int := meta.caller_in(db); login int := meta.server_login();
begin
    if usr is null then return; end if;
    if usr = 1 or meta.has_permission(login, db, usr, 'DATABASE', 0, 'VIEW DEFINITION')
        or meta.has_permission(login, db, usr, 'DATABASE', 0, 'ALTER ANY USER')
        or meta.has_permission(login, db, usr, 'DATABASE', 0, 'ALTER ANY ROLE')
        or meta.has_permission(login, db, usr, 'DATABASE', 0, 'VIEW SECURITY DEFINITION') then
        return query select principal_id from meta.principals where database_id = db;
        return;
    end if;
    return query
    select p.principal_id from meta.principals p where p.database_id = db and (
        p.is_fixed_role or p.principal_id in (0, 1, 2, 3, 4, usr)
        or p.principal_id in (select meta.user_tokens(db, usr))
        or p.owning_principal_id in (select meta.user_tokens(db, usr))
        or exists (select from meta.permissions q where q.database_id = db and q.class = 4 and q.major_id = p.principal_id
            and q.state in ('G', 'W') and q.grantee in (select meta.user_tokens(db, usr))));
end $$;

create function meta.visible_logins() returns setof int stable language plpgsql as $$
declare login int := meta.server_login();
begin
    if meta.server_permission(login, 'VIEW ANY DEFINITION') or meta.server_permission(login, 'ALTER ANY LOGIN')
        or meta.server_permission(login, 'VIEW ANY SECURITY DEFINITION') then
        return query select principal_id from meta.logins;
        return;
    end if;
    return query select l.principal_id from meta.logins l
    where l.is_fixed_role or l.principal_id in (1, 2, login, meta.setting('login'))
       or l.principal_id in (select meta.login_tokens(login))
       or l.owning_principal_id in (select meta.login_tokens(login))
       or exists (select from meta.permissions q where q.database_id = 0 and q.class = 101 and q.major_id = l.principal_id
           and q.state in ('G', 'W') and q.grantee in (select meta.login_tokens(login)));
end $$;

create function meta.visible_databases() returns setof int stable language plpgsql as $$
declare login int := meta.server_login();
begin
    if meta.server_permission(login, 'VIEW ANY DATABASE') or meta.server_permission(login, 'ALTER ANY DATABASE') then
        return query select database_id from meta.databases;
        return;
    end if;
    return query select database_id from meta.databases d
    where d.database_id in (1, 2, meta.current_db())
       or d.owner_sid = (select sid from meta.logins where principal_id = login);
end $$;
