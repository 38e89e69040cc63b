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

-- The functions below hold no query, so that PostgreSQL puts them into the queries that call them.

create function meta.system_type_id(type_name text) returns smallint immutable language sql as $$
    select (case type_name
        when 'image' then 34 when 'text' then 35 when 'uniqueidentifier' then 36 when 'date' then 40
        when 'time' then 41 when 'datetime2' then 42 when 'datetimeoffset' then 43 when 'tinyint' then 48
        when 'smallint' then 52 when 'int' then 56 when 'smalldatetime' then 58 when 'real' then 59
        when 'money' then 60 when 'datetime' then 61 when 'float' then 62 when 'sql_variant' then 98
        when 'ntext' then 99 when 'bit' then 104 when 'decimal' then 106 when 'numeric' then 108
        when 'smallmoney' then 122 when 'bigint' then 127 when 'hierarchyid' then 240 when 'geometry' then 240
        when 'geography' then 240 when 'varbinary' then 165 when 'varchar' then 167 when 'binary' then 173
        when 'char' then 175 when 'rowversion' then 189 when 'nvarchar' then 231 when 'nchar' then 239
        when 'xml' then 241 when 'sysname' then 231 end)::smallint
$$;

create function meta.user_type_id(type_name text) returns int immutable language sql as $$
    select case type_name
        when 'image' then 34 when 'text' then 35 when 'uniqueidentifier' then 36 when 'date' then 40
        when 'time' then 41 when 'datetime2' then 42 when 'datetimeoffset' then 43 when 'tinyint' then 48
        when 'smallint' then 52 when 'int' then 56 when 'smalldatetime' then 58 when 'real' then 59
        when 'money' then 60 when 'datetime' then 61 when 'float' then 62 when 'sql_variant' then 98
        when 'ntext' then 99 when 'bit' then 104 when 'decimal' then 106 when 'numeric' then 108
        when 'smallmoney' then 122 when 'bigint' then 127 when 'hierarchyid' then 128 when 'geometry' then 129
        when 'geography' then 130 when 'varbinary' then 165 when 'varchar' then 167 when 'binary' then 173
        when 'char' then 175 when 'rowversion' then 189 when 'nvarchar' then 231 when 'nchar' then 239
        when 'xml' then 241 when 'sysname' then 256 end
$$;

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
        else case type_name
        when 'image' then 16 when 'text' then 16 when 'uniqueidentifier' then 16 when 'date' then 3
        when 'time' then 5 when 'datetime2' then 8 when 'datetimeoffset' then 10 when 'tinyint' then 1
        when 'smallint' then 2 when 'int' then 4 when 'smalldatetime' then 4 when 'real' then 4
        when 'money' then 8 when 'datetime' then 8 when 'float' then 8 when 'sql_variant' then 8016
        when 'ntext' then 16 when 'bit' then 1 when 'decimal' then 17 when 'numeric' then 17
        when 'smallmoney' then 4 when 'bigint' then 8 when 'hierarchyid' then 892 when 'geometry' then -1
        when 'geography' then -1 when 'varbinary' then 8000 when 'varchar' then 8000 when 'binary' then 8000
        when 'char' then 8000 when 'rowversion' then 8 when 'nvarchar' then 8000 when 'nchar' then 8000
        when 'xml' then -1 when 'sysname' then 256 end end)::smallint
$$;

create function meta.type_precision(type_name text, length int, "precision" int) returns smallint
immutable language sql as $$
    select (case when type_name in ('decimal', 'numeric') then precision else case type_name
        when 'image' then 0 when 'text' then 0 when 'uniqueidentifier' then 0 when 'date' then 10
        when 'time' then 16 when 'datetime2' then 27 when 'datetimeoffset' then 34 when 'tinyint' then 3
        when 'smallint' then 5 when 'int' then 10 when 'smalldatetime' then 16 when 'real' then 24
        when 'money' then 19 when 'datetime' then 23 when 'float' then 53 when 'sql_variant' then 0
        when 'ntext' then 0 when 'bit' then 1 when 'decimal' then 38 when 'numeric' then 38
        when 'smallmoney' then 10 when 'bigint' then 19 when 'hierarchyid' then 0 when 'geometry' then 0
        when 'geography' then 0 when 'varbinary' then 0 when 'varchar' then 0 when 'binary' then 0
        when 'char' then 0 when 'rowversion' then 0 when 'nvarchar' then 0 when 'nchar' then 0
        when 'xml' then 0 when 'sysname' then 0 end end)::smallint
$$;

create function meta.type_scale(type_name text, scale int) returns smallint immutable language sql as $$
    select (case when type_name in ('decimal', 'numeric', 'time', 'datetime2', 'datetimeoffset') then scale
        else case type_name
        when 'image' then 0 when 'text' then 0 when 'uniqueidentifier' then 0 when 'date' then 0
        when 'time' then 7 when 'datetime2' then 7 when 'datetimeoffset' then 7 when 'tinyint' then 0
        when 'smallint' then 0 when 'int' then 0 when 'smalldatetime' then 0 when 'real' then 0
        when 'money' then 4 when 'datetime' then 3 when 'float' then 0 when 'sql_variant' then 0
        when 'ntext' then 0 when 'bit' then 0 when 'decimal' then 38 when 'numeric' then 38
        when 'smallmoney' then 4 when 'bigint' then 0 when 'hierarchyid' then 0 when 'geometry' then 0
        when 'geography' then 0 when 'varbinary' then 0 when 'varchar' then 0 when 'binary' then 0
        when 'char' then 0 when 'rowversion' then 0 when 'nvarchar' then 0 when 'nchar' then 0
        when 'xml' then 0 when 'sysname' then 0 end end)::smallint
$$;

-- Precision of a fractional-seconds type as sys.columns shows it.
create function meta.column_precision(type_name text, length int, "precision" int, scale int) returns smallint
immutable language sql as $$
    select (case type_name
        when 'time' then 8 + case when scale > 0 then scale + 1 else 0 end
        when 'datetime2' then 19 + case when scale > 0 then scale + 1 else 0 end
        when 'datetimeoffset' then 26 + case when scale > 0 then scale + 1 else 0 end
        when 'decimal' then precision when 'numeric' then precision
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
