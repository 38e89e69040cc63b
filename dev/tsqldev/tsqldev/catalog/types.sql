-- The system types, and how sys.columns describes a column of each.

create table meta.types (
    name text primary key,
    system_type_id smallint not null,
    user_type_id int not null unique,
    max_length smallint not null,
    "precision" smallint not null,
    scale smallint not null,
    takes_collation boolean not null
);

insert into meta.types values
    ('image', 34, 34, 16, 0, 0, false), ('text', 35, 35, 16, 0, 0, true),
    ('uniqueidentifier', 36, 36, 16, 0, 0, false), ('date', 40, 40, 3, 10, 0, false),
    ('time', 41, 41, 5, 16, 7, false), ('datetime2', 42, 42, 8, 27, 7, false),
    ('datetimeoffset', 43, 43, 10, 34, 7, false), ('tinyint', 48, 48, 1, 3, 0, false),
    ('smallint', 52, 52, 2, 5, 0, false), ('int', 56, 56, 4, 10, 0, false),
    ('smalldatetime', 58, 58, 4, 16, 0, false), ('real', 59, 59, 4, 24, 0, false),
    ('money', 60, 60, 8, 19, 4, false), ('datetime', 61, 61, 8, 23, 3, false),
    ('float', 62, 62, 8, 53, 0, false), ('sql_variant', 98, 98, 8016, 0, 0, false),
    ('ntext', 99, 99, 16, 0, 0, true), ('bit', 104, 104, 1, 1, 0, false),
    ('decimal', 106, 106, 17, 38, 38, false), ('numeric', 108, 108, 17, 38, 38, false),
    ('smallmoney', 122, 122, 4, 10, 4, false), ('bigint', 127, 127, 8, 19, 0, false),
    ('hierarchyid', 240, 128, 892, 0, 0, false), ('geometry', 240, 129, -1, 0, 0, false),
    ('geography', 240, 130, -1, 0, 0, false), ('varbinary', 165, 165, 8000, 0, 0, false),
    ('varchar', 167, 167, 8000, 0, 0, true), ('binary', 173, 173, 8000, 0, 0, false),
    ('char', 175, 175, 8000, 0, 0, true), ('timestamp', 189, 189, 8, 0, 0, false),
    ('nvarchar', 231, 231, 8000, 0, 0, true), ('nchar', 239, 239, 8000, 0, 0, true),
    ('xml', 241, 241, -1, 0, 0, false), ('sysname', 231, 256, 256, 0, 0, true);

create function meta.type_row(type_name text) returns meta.types stable language sql as
$$ select t from meta.types t where t.name = case type_name when 'rowversion' then 'timestamp' else type_name end $$;

create function meta.max_length(type_name text, length int, "precision" int, scale int) returns smallint
immutable language sql as $$
    select (case
        when type_name in ('nchar', 'nvarchar') then case when length = -1 then -1 else length * 2 end
        when type_name in ('char', 'varchar', 'binary', 'varbinary') then length
        when type_name in ('decimal', 'numeric') then
            case when precision <= 9 then 5 when precision <= 19 then 9 when precision <= 28 then 13 else 17 end
        when type_name = 'time' then case when scale <= 2 then 3 when scale <= 4 then 4 else 5 end
        when type_name = 'datetime2' then case when scale <= 2 then 6 when scale <= 4 then 7 else 8 end
        when type_name = 'datetimeoffset' then case when scale <= 2 then 8 when scale <= 4 then 9 else 10 end
        when type_name = 'rowversion' then 8
        else (meta.type_row(type_name)).max_length end)::smallint
$$;

create function meta.type_precision(type_name text, length int, "precision" int) returns smallint
immutable language sql as $$
    select (case when type_name in ('decimal', 'numeric') then precision
        when type_name in ('char', 'varchar', 'nchar', 'nvarchar', 'binary', 'varbinary') then 0
        else (meta.type_row(type_name)).precision end)::smallint
$$;

create function meta.type_scale(type_name text, scale int) returns smallint immutable language sql as $$
    select (case when type_name in ('decimal', 'numeric', 'time', 'datetime2', 'datetimeoffset') then scale
        else (meta.type_row(type_name)).scale end)::smallint
$$;

-- Precision of a fractional-seconds type as sys.columns shows it.
create function meta.column_precision(type_name text, length int, "precision" int, scale int) returns smallint
immutable language sql as $$
    select (case type_name
        when 'time' then 8 + case when scale > 0 then scale + 1 else 0 end
        when 'datetime2' then 19 + case when scale > 0 then scale + 1 else 0 end
        when 'datetimeoffset' then 26 + case when scale > 0 then scale + 1 else 0 end
        else meta.type_precision(type_name, length, precision) end)::smallint
$$;

-- Catalog views and DMVs, filled from their declarations: what OBJECT_ID('sys.tables') finds.
create table meta.system_objects (
    object_id int primary key,
    schema_name text not null,
    name text not null,
    schema_key text generated always as (meta.fold(schema_name)) stored,
    key text generated always as (meta.fold(name)) stored,
    type text not null,
    unique (schema_key, key)
);
