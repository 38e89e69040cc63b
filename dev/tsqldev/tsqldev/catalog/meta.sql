-- meta: what the emulation knows of databases, objects, principals and rights. Applied once, to an empty cluster.
--
-- Every change is made in the session's own transaction, so that it rolls back with it. Object ids are unique in the
-- whole server, not only in a database. Dates are `datetime` values as tsqldev.types holds them (1/300 s since 1900).

create schema if not exists meta;
create schema if not exists data;
create schema if not exists sys;

-- The digest of the scripts that made this metadata: they are applied once, and a folder made by others is refused.
-- `instance` tells this metadata from that of every other server.
create table meta.made_by (scripts text not null, instance uuid not null default gen_random_uuid());

-- Which changes this transaction sees: the ids come from a sequence, never twice, and their hashes together name one set
-- of changes. (Their sum would not: two open transactions can have made 1 and 4, and 2 and 3.) A cache keyed by it is right
-- also after a rollback, and when one process has to do with several servers.
-- `names` marks those that can change what a text means; the others change who may do what, and nothing else.
create table meta.version (id bigint generated always as identity primary key, names boolean not null);

create function meta.visible_version() returns bigint stable language sql as
$$ select hashtextextended((select instance from meta.made_by) || '.' || count(*) || '.' || coalesce(bit_xor(hashint8extended(id, 0)), 0), 0) from meta.version $$;

create function meta.visible_names() returns bigint stable language sql as
$$ select hashtextextended((select instance from meta.made_by) || '.' || count(*) || '.' || coalesce(bit_xor(hashint8extended(id, 0)), 0), 1) from meta.version where names $$;

create function meta.bump(names boolean default true) returns void language plpgsql as $$
declare mine bigint;
begin
    insert into meta.version (names) values (bump.names) returning id into mine;
    -- Without statistics the joins of catalog views are planned for empty tables. Does not wait for another who does it.
    if mine % 16 = 0 then
        analyze (skip_locked) meta.objects, meta.columns, meta.indexes, meta.index_columns, meta.key_constraints,
            meta.check_constraints, meta.default_constraints, meta.foreign_keys, meta.foreign_key_columns, meta.modules,
            meta.triggers, meta.schemas, meta.principals, meta.permissions;
    end if;
    if mine % 64 = 0 and current_setting('transaction_isolation') = 'read committed' then
        delete from meta.version
        where id in (select id from meta.version where id < mine - 64 for update skip locked);
    end if;
end $$;

create function meta.now() returns bigint volatile language sql as
$$ select round((extract(epoch from clock_timestamp()) + 2208988800) * 300)::bigint $$;

-- Names are found without regard to case, as under the default collation.
create function meta.fold(name text) returns text immutable strict language sql return lower(rtrim(name, ' '));

create function meta.guid_of(sid bytea) returns uuid immutable strict language sql return encode(sid, 'hex')::uuid;

create sequence meta.object_ids as int start 581577110;
create sequence meta.rowversion start 2001;

-- Ids come from sequences: two transactions that create things at once must not wait for each other, nor collide.
-- Schemas and users have one of each in every database: meta.schema_ids_<database>, meta.principal_ids_<database>.
create sequence meta.database_ids as int;
create sequence meta.login_ids as int start 267;

create table meta.databases (
    database_id int primary key,
    name text not null,
    key text generated always as (meta.fold(name)) stored unique,
    collation_name text not null default 'SQL_Latin1_General_CP1_CI_AS',
    owner_sid bytea not null default '\x01',
    create_date bigint not null default meta.now(),
    compatibility_level smallint not null default 160,
    options jsonb not null default '{}'
);

create table meta.logins (
    principal_id int primary key,
    name text not null,
    key text generated always as (meta.fold(name)) stored unique,
    type char(1) not null,
    sid bytea not null unique,
    is_disabled boolean not null default false,
    is_fixed_role boolean not null default false,
    owning_principal_id int,
    password_hash bytea,
    default_database text,
    default_language text,
    check_policy boolean not null default true,
    check_expiration boolean not null default false,
    create_date bigint not null default meta.now(),
    modify_date bigint not null default meta.now()
);

create table meta.principals (
    database_id int not null references meta.databases on delete cascade,
    principal_id int not null,
    name text not null,
    key text generated always as (meta.fold(name)) stored,
    type char(1) not null,
    default_schema text,
    sid bytea,
    owning_principal_id int,
    is_fixed_role boolean not null default false,
    authentication_type smallint not null default 0,
    create_date bigint not null default meta.now(),
    modify_date bigint not null default meta.now(),
    primary key (database_id, principal_id),
    unique (database_id, key)
);
create unique index on meta.principals (database_id, sid) where type = 'S' and sid is not null;

-- database_id 0 is the server.
create table meta.role_members (
    database_id int not null,
    role_id int not null,
    member_id int not null,
    primary key (database_id, role_id, member_id)
);

-- class: 0 database, 1 object or column, 3 schema, 4 database principal, 100 server, 101 server principal, 105 endpoint.
create table meta.permissions (
    database_id int not null,
    class smallint not null,
    major_id int not null,
    minor_id int not null default 0,
    grantee int not null,
    grantor int not null,
    permission text not null,
    state char(1) not null check (state in ('G', 'W', 'D')),
    primary key (database_id, class, major_id, minor_id, grantee, permission, grantor)
);

create table meta.schemas (
    database_id int not null references meta.databases on delete cascade,
    schema_id int not null,
    name text not null,
    key text generated always as (meta.fold(name)) stored,
    principal_id int not null,
    primary key (database_id, schema_id),
    unique (database_id, key)
);

create table meta.objects (
    object_id int primary key,
    database_id int not null references meta.databases on delete cascade,
    schema_id int not null,
    name text not null,
    key text generated always as (meta.fold(name)) stored,
    type text not null,
    parent_object_id int not null default 0,
    principal_id int,
    is_system_named boolean not null default false,
    create_date bigint not null default meta.now(),
    modify_date bigint not null default meta.now(),
    foreign key (database_id, schema_id) references meta.schemas,
    unique (database_id, schema_id, key)
);
create index on meta.objects (parent_object_id);

create table meta.columns (
    object_id int not null references meta.objects on delete cascade,
    column_id int not null,
    name text not null,
    key text generated always as (meta.fold(name)) stored,
    type_name text not null,
    length int,
    "precision" int,
    scale int,
    collation_name text,
    is_nullable boolean not null,
    is_identity boolean not null default false,
    seed_value numeric,
    increment_value numeric,
    computed text,
    is_persisted boolean not null default false,
    is_rowguidcol boolean not null default false,
    is_sparse boolean not null default false,
    masking_function text,
    default_object_id int not null default 0,
    primary key (object_id, column_id),
    unique (object_id, key)
);

-- The heap of a table without a clustered index is not a row here.
create table meta.indexes (
    object_id int not null references meta.objects on delete cascade,
    index_id int not null,
    name text not null,
    key text generated always as (meta.fold(name)) stored,
    type smallint not null,
    is_unique boolean not null default false,
    is_primary_key boolean not null default false,
    is_unique_constraint boolean not null default false,
    is_disabled boolean not null default false,
    is_padded boolean not null default false,
    ignore_dup_key boolean not null default false,
    allow_row_locks boolean not null default true,
    allow_page_locks boolean not null default true,
    optimize_for_sequential_key boolean not null default false,
    fill_factor smallint not null default 0,
    compression smallint not null default 0,
    filter_definition text,
    physical_filter text,
    primary key (object_id, index_id),
    unique (object_id, key)
);

create table meta.index_columns (
    object_id int not null,
    index_id int not null,
    index_column_id int not null,
    column_id int not null,
    key_ordinal smallint not null,
    is_descending boolean not null default false,
    is_included boolean not null default false,
    primary key (object_id, index_id, index_column_id),
    foreign key (object_id, index_id) references meta.indexes on delete cascade
);

create table meta.key_constraints (
    object_id int primary key references meta.objects on delete cascade,
    parent_object_id int not null,
    index_id int not null
);

create table meta.check_constraints (
    object_id int primary key references meta.objects on delete cascade,
    parent_object_id int not null,
    parent_column_id int not null,
    definition text not null,
    physical text not null,
    uses_database_collation boolean not null default false,
    is_disabled boolean not null default false,
    is_not_trusted boolean not null default false
);

create table meta.default_constraints (
    object_id int primary key references meta.objects on delete cascade,
    parent_object_id int not null,
    parent_column_id int not null,
    definition text not null,
    source text not null
);

create table meta.foreign_keys (
    object_id int primary key references meta.objects on delete cascade,
    parent_object_id int not null,
    referenced_object_id int not null,
    key_index_id int not null,
    delete_action smallint not null default 0,
    update_action smallint not null default 0,
    is_disabled boolean not null default false,
    is_not_trusted boolean not null default false
);

create table meta.foreign_key_columns (
    object_id int not null references meta.foreign_keys on delete cascade,
    ordinal int not null,
    parent_column_id int not null,
    referenced_column_id int not null,
    primary key (object_id, ordinal)
);

-- body: what runs (a view: the query after AS), `body_line` lines into the definition (1 = its first line).
create table meta.modules (
    object_id int primary key references meta.objects on delete cascade,
    definition text not null,
    body text not null,
    body_line int not null,
    uses_ansi_nulls boolean not null default true,
    uses_quoted_identifier boolean not null default true,
    is_schema_bound boolean not null default false,
    uses_database_collation boolean not null default false,
    execute_as_principal_id int,
    with_check_option boolean not null default false,
    has_opaque_metadata boolean not null default false
);

create table meta.parameters (
    object_id int not null references meta.objects on delete cascade,
    parameter_id int not null,
    name text not null,
    type_name text not null,
    length int,
    "precision" int,
    scale int,
    collation_name text,
    default_text text,
    is_output boolean not null default false,
    primary key (object_id, parameter_id)
);

create table meta.triggers (
    object_id int primary key references meta.objects on delete cascade,
    parent_id int not null,
    is_instead_of boolean not null,
    is_disabled boolean not null default false,
    actions text[] not null
);

create table meta.server_triggers (
    object_id int primary key,
    name text not null,
    key text generated always as (meta.fold(name)) stored unique,
    events text[] not null,
    is_disabled boolean not null default false,
    definition text not null,
    body text not null,
    body_line int not null,
    uses_ansi_nulls boolean not null default true,
    uses_quoted_identifier boolean not null default true,
    execute_as_principal_id int,
    create_date bigint not null default meta.now(),
    modify_date bigint not null default meta.now()
);

-- What a module's text names, unresolved: read by sys.sql_expression_dependencies.
create table meta.dependencies (
    object_id int not null references meta.objects on delete cascade,
    ordinal int not null,
    server_name text,
    database_name text,
    schema_name text,
    entity_name text not null,
    primary key (object_id, ordinal)
);

create table meta.extended_properties (
    database_id int not null references meta.databases on delete cascade,
    class smallint not null,
    major_id int not null,
    minor_id int not null,
    name text not null,
    key text generated always as (meta.fold(name)) stored,
    value text,
    value_type text not null default 'nvarchar',
    primary key (database_id, class, major_id, minor_id, key)
);

create table meta.configurations (
    configuration_id int primary key,
    name text not null,
    value int not null,
    minimum int not null,
    maximum int not null,
    value_in_use int not null,
    description text not null,
    is_dynamic boolean not null,
    is_advanced boolean not null
);

-- Built-in permissions: what a permission is covered by in its own class, and in the class above.
create table meta.builtin_permissions (
    class smallint not null,
    class_desc text not null,
    permission text not null,
    type text not null,
    covering text,
    parent_class smallint,
    parent_covering text,
    primary key (class_desc, permission)
);

-- Storage options of a table without clustered index.
create table meta.heaps (object_id int primary key references meta.objects on delete cascade, heap_compression smallint not null);

create function meta.row_count(table_id int) returns bigint stable language plpgsql as $$
declare answer bigint;
begin
    if to_regclass('data.t' || table_id) is null then return 0; end if;
    execute format('select count(*) from data.t%s', table_id) into answer;
    return answer;
end $$;

create function meta.next_rowversion() returns trigger language plpgsql as $$
begin
    return jsonb_populate_record(new, jsonb_build_object(tg_argv[0], nextval('meta.rowversion')));
end $$;
