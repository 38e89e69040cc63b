-- Catalog views: `--:` names a view, `--|` declares its columns in the query's order (`!` = NOT NULL).
-- In a query, :db is the id of the database whose view it is, and :name(x) the names of what x holds.

--: sys.databases
--| name sysname!, database_id int!, source_database_id int, owner_sid varbinary(85), create_date datetime!, compatibility_level tinyint!, collation_name sysname, user_access tinyint, user_access_desc nvarchar(60), is_read_only bit, is_auto_close_on bit!, is_auto_shrink_on bit, state tinyint, state_desc nvarchar(60), is_in_standby bit, is_cleanly_shutdown bit, is_supplemental_logging_enabled bit
--| snapshot_isolation_state tinyint, snapshot_isolation_state_desc nvarchar(60), is_read_committed_snapshot_on bit, recovery_model tinyint, recovery_model_desc nvarchar(60), page_verify_option tinyint, page_verify_option_desc nvarchar(60), is_auto_create_stats_on bit, is_auto_create_stats_incremental_on bit, is_auto_update_stats_on bit, is_auto_update_stats_async_on bit
--| is_ansi_null_default_on bit, is_ansi_nulls_on bit, is_ansi_padding_on bit, is_ansi_warnings_on bit, is_arithabort_on bit, is_concat_null_yields_null_on bit, is_numeric_roundabort_on bit, is_quoted_identifier_on bit, is_recursive_triggers_on bit, is_cursor_close_on_commit_on bit, is_local_cursor_default bit, is_fulltext_enabled bit, is_trustworthy_on bit, is_db_chaining_on bit, is_parameterization_forced bit
--| is_master_key_encrypted_by_server bit!, is_query_store_on bit, is_published bit!, is_subscribed bit!, is_merge_published bit!, is_distributor bit!, is_sync_with_backup bit!, service_broker_guid uniqueidentifier!, is_broker_enabled bit!, log_reuse_wait tinyint, log_reuse_wait_desc nvarchar(60), is_date_correlation_on bit!, is_cdc_enabled bit!, is_encrypted bit, is_honor_broker_priority_on bit
--| replica_id uniqueidentifier, group_database_id uniqueidentifier, resource_pool_id int, default_language_lcid smallint, default_language_name nvarchar(128), containment tinyint, containment_desc nvarchar(60), target_recovery_time_in_seconds int, delayed_durability int, delayed_durability_desc nvarchar(60), is_memory_optimized_elevate_to_snapshot_on bit, is_remote_data_archive_enabled bit, is_mixed_page_allocation_on bit
--| is_temporal_history_retention_enabled bit, catalog_collation_type int!, catalog_collation_type_desc nvarchar(60), physical_database_name nvarchar(128), is_result_set_caching_on bit, is_accelerated_database_recovery_on bit, is_tempdb_spill_to_remote_store bit, is_stale_page_detection_on bit, is_memory_optimized_enabled bit, is_data_retention_enabled bit, is_ledger_on bit, is_change_feed_enabled bit
select d.name, d.database_id, null, d.owner_sid, d.create_date, d.compatibility_level, d.collation_name,
    case meta.option(options, 'user_access', 'MULTI_USER') when 'SINGLE_USER' then 1 when 'RESTRICTED_USER' then 2 else 0 end, meta.option(options, 'user_access', 'MULTI_USER'),
    meta.option(options, 'is_read_only', '0')::int, 0, 0, 0, 'ONLINE', 0, 0, 0,
    case when d.database_id in (1, 4) then 1 else meta.option(options, 'allow_snapshot_isolation', '0')::int end,
    case when d.database_id in (1, 4) or meta.option(options, 'allow_snapshot_isolation', '0') = '1' then 'ON' else 'OFF' end,
    meta.option(options, 'read_committed_snapshot', '0')::int,
    case meta.option(options, 'recovery_model', case when d.database_id in (1, 2, 4) then 'SIMPLE' else 'FULL' end) when 'FULL' then 1 when 'BULK_LOGGED' then 2 else 3 end,
    meta.option(options, 'recovery_model', case when d.database_id in (1, 2, 4) then 'SIMPLE' else 'FULL' end),
    2, 'CHECKSUM', 1, 0, 1, 0,
    meta.option(options, 'is_ansi_null_default_on', '0')::int, meta.option(options, 'is_ansi_nulls_on', '0')::int, meta.option(options, 'is_ansi_padding_on', '0')::int, meta.option(options, 'is_ansi_warnings_on', '0')::int, meta.option(options, 'is_arithabort_on', '0')::int, meta.option(options, 'is_concat_null_yields_null_on', '0')::int, meta.option(options, 'is_numeric_roundabort_on', '0')::int, meta.option(options, 'is_quoted_identifier_on', '0')::int, meta.option(options, 'is_recursive_triggers_on', '0')::int, 0, 0, 0,
    case when d.database_id = 4 then meta.option(options, 'trustworthy', '1') else meta.option(options, 'trustworthy', '0') end::int,
    case when d.database_id in (1, 2, 4) then 1 else meta.option(options, 'db_chaining', '0')::int end, 0,
    case when d.database_id = 1 then 1 else 0 end, meta.option(options, 'is_query_store_on', '0')::int, 0, 0, 0, 0, 0, md5('broker' || d.database_id || d.create_date)::uuid, case when d.database_id in (2, 4) then 1 else 0 end, 0, 'NOTHING', 0, 0, 0, 0,
    null, null, null, 1033, 'us_english', 0, 'NONE', 60, case meta.option(options, 'delayed_durability', 'DISABLED') when 'FORCED' then 2 when 'ALLOWED' then 1 else 0 end, meta.option(options, 'delayed_durability', 'DISABLED'), 0, 0, 0,
    1, 0, 'DATABASE_DEFAULT', d.name, 0, meta.option(options, 'accelerated_database_recovery', '0')::int, 0, 0, 1, 0, 0, 0
from meta.databases d where d.database_id in (select meta.visible_databases())

--: sys.database_recovery_status
--| database_id int!, database_guid uniqueidentifier, family_guid uniqueidentifier, last_log_backup_lsn decimal(25,0), recovery_fork_guid uniqueidentifier, first_recovery_fork_guid uniqueidentifier, fork_point_lsn decimal(25,0)
select database_id, md5('database' || database_id || create_date)::uuid, md5('family' || database_id || create_date)::uuid, null, md5('fork' || database_id || create_date)::uuid, null, null
from meta.databases where database_id in (select meta.visible_databases())
  and ((select meta.server_permission(meta.server_login(), 'VIEW ANY DEFINITION')) or meta.sees_all(database_id))

--: sys.configurations
--| configuration_id int!, name nvarchar(35)!, value int, minimum int, maximum int, value_in_use int, description nvarchar(255)!, is_dynamic bit!, is_advanced bit!
select configuration_id, name, value, minimum, maximum, value_in_use, description, is_dynamic, is_advanced from meta.configurations

--: sys.server_principals
--| name sysname!, principal_id int!, sid varbinary(85), type char(1)!, type_desc nvarchar(60), is_disabled bit, create_date datetime!, modify_date datetime!, default_database_name sysname, default_language_name sysname, credential_id int, owning_principal_id int, is_fixed_role bit!
select name, principal_id, sid, type, case type when 'R' then 'SERVER_ROLE' else 'SQL_LOGIN' end, is_disabled, create_date, modify_date, default_database, default_language, null, owning_principal_id, is_fixed_role
from meta.logins where principal_id in (select meta.visible_logins())

--: sys.sql_logins
--| name sysname!, principal_id int!, sid varbinary(85), type char(1)!, type_desc nvarchar(60), is_disabled bit, create_date datetime!, modify_date datetime!, default_database_name sysname, default_language_name sysname, credential_id int, is_policy_checked bit, is_expiration_checked bit, password_hash varbinary(256)
select name, principal_id, sid, type, 'SQL_LOGIN', is_disabled, create_date, modify_date, default_database, default_language, null, check_policy, check_expiration,
    case when (select meta.server_permission(meta.server_login(), 'CONTROL SERVER')) then password_hash end
from meta.logins where type = 'S' and principal_id in (select meta.visible_logins())

--: sys.server_role_members
--| role_principal_id int!, member_principal_id int!
select role_id, member_id from meta.role_members where database_id = 0
  and (member_id in (select meta.login_tokens(meta.server_login())) or role_id in (select meta.login_tokens(meta.server_login()))
    or (select meta.server_permission(meta.server_login(), 'VIEW ANY DEFINITION')) or (select meta.server_permission(meta.server_login(), 'ALTER ANY LOGIN')))

--: sys.server_permissions
--| class tinyint!, class_desc nvarchar(60), major_id int!, minor_id int!, grantee_principal_id int!, grantor_principal_id int!, type char(4)!, permission_name nvarchar(128), state char(1)!, state_desc nvarchar(60)
select p.class, case p.class when 100 then 'SERVER' when 101 then 'SERVER_PRINCIPAL' else 'ENDPOINT' end, p.major_id, p.minor_id, p.grantee, p.grantor,
    (select min(b.type) from meta.builtin_permissions b where b.class = p.class and b.permission = p.permission), p.permission, p.state,
    case p.state when 'G' then 'GRANT' when 'W' then 'GRANT_WITH_GRANT_OPTION' else 'DENY' end
from meta.permissions p where p.database_id = 0
  and (p.grantee in (select meta.login_tokens(meta.server_login())) or p.grantor = (select meta.server_login())
    or (select meta.server_permission(meta.server_login(), 'VIEW ANY DEFINITION')) or (select meta.server_permission(meta.server_login(), 'ALTER ANY LOGIN'))
    or (select meta.server_permission(meta.server_login(), 'VIEW ANY SECURITY DEFINITION')))

--: sys.login_token
--| principal_id int, sid varbinary(85), name nvarchar(128), type nvarchar(128), usage nvarchar(128)
select l.principal_id, l.sid, l.name, case l.type when 'R' then 'SERVER ROLE' else 'SQL LOGIN' end, 'GRANT OR DENY'
from meta.logins l where l.principal_id in (select meta.login_tokens(meta.setting('login')))

--: sys.user_token
--| principal_id int, sid varbinary(85), name nvarchar(128), type nvarchar(128), usage nvarchar(128)
select p.principal_id, p.sid, p.name, case p.type when 'R' then 'ROLE' else 'SQL USER' end, 'GRANT OR DENY'
from meta.principals p where p.database_id = :db and p.principal_id in (select meta.user_tokens(:db, meta.caller_in(:db)))

--: sys.endpoints
--| name sysname!, endpoint_id int!, principal_id int, protocol tinyint!, protocol_desc nvarchar(60), type tinyint!, type_desc nvarchar(60), state tinyint, state_desc nvarchar(60), is_admin_endpoint bit!
select * from (values
    ('Dedicated Admin Connection', 1, 1, 2, 'TCP', 2, 'TSQL', 0, 'STARTED', 1), ('TSQL Local Machine', 2, 1, 4, 'SHARED_MEMORY', 2, 'TSQL', 0, 'STARTED', 0),
    ('TSQL Named Pipes', 3, 1, 3, 'NAMED_PIPES', 2, 'TSQL', 0, 'STARTED', 0), ('TSQL Default TCP', 4, 1, 2, 'TCP', 2, 'TSQL', 0, 'STARTED', 0),
    ('TSQL Default VIA', 5, 1, 5, 'VIA', 2, 'TSQL', 0, 'STARTED', 0)) e

--: sys.servers
--| server_id int!, name sysname!, product sysname!, provider sysname!, data_source nvarchar(4000), is_linked bit!
select 0, 'TSQLDEV', 'SQL Server', 'SQLNCLI', 'TSQLDEV', 0

--: sys.server_triggers
--| name sysname!, object_id int!, parent_class tinyint!, parent_class_desc nvarchar(60), parent_id int!, type char(2)!, type_desc nvarchar(60), create_date datetime!, modify_date datetime!, is_ms_shipped bit!, is_disabled bit!
select name, object_id, 100, 'SERVER', 0, 'TR', 'SQL_TRIGGER', create_date, modify_date, 0, is_disabled
from meta.server_triggers where (select meta.server_permission(meta.server_login(), 'VIEW ANY DEFINITION'))

--: sys.server_sql_modules
--| object_id int!, definition nvarchar(max), uses_ansi_nulls bit!, uses_quoted_identifier bit!, execute_as_principal_id int
select object_id, definition, uses_ansi_nulls, uses_quoted_identifier, execute_as_principal_id
from meta.server_triggers where (select meta.server_permission(meta.server_login(), 'VIEW ANY DEFINITION'))

--: sys.server_trigger_events
--| object_id int!, type int!, type_desc nvarchar(128), is_trigger_event bit, is_first bit, is_last bit, event_group_type int, event_group_type_desc nvarchar(60)
select t.object_id, case e when 'LOGON' then 147 else 0 end, e, 1, 0, 0, null, null
from meta.server_triggers t, unnest(t.events) e where (select meta.server_permission(meta.server_login(), 'VIEW ANY DEFINITION'))

--: sys.schemas
--| name sysname!, schema_id int!, principal_id int
select name, schema_id, principal_id from meta.schemas where database_id = :db

--: sys.database_principals
--| name sysname!, principal_id int!, type char(1)!, type_desc nvarchar(60), default_schema_name sysname, create_date datetime!, modify_date datetime!, owning_principal_id int, sid varbinary(85), is_fixed_role bit!, authentication_type int!, authentication_type_desc nvarchar(60), default_language_name sysname, default_language_lcid int, allow_encrypted_value_modifications bit
select name, principal_id, type, case type when 'R' then 'DATABASE_ROLE' else 'SQL_USER' end, default_schema, create_date, modify_date, owning_principal_id, sid, is_fixed_role, authentication_type,
    case authentication_type when 1 then 'INSTANCE' else 'NONE' end, null, null, 0
from meta.principals where database_id = :db and principal_id in (select meta.visible_principals(:db))

--: sys.database_role_members
--| role_principal_id int!, member_principal_id int!
select role_id, member_id from meta.role_members where database_id = :db
  and role_id in (select meta.visible_principals(:db)) and member_id in (select meta.visible_principals(:db))

--: sys.database_permissions
--| class tinyint!, class_desc nvarchar(60), major_id int!, minor_id int!, grantee_principal_id int!, grantor_principal_id int!, type char(4)!, permission_name nvarchar(128), state char(1)!, state_desc nvarchar(60)
select p.class, case p.class when 0 then 'DATABASE' when 1 then 'OBJECT_OR_COLUMN' when 3 then 'SCHEMA' else 'DATABASE_PRINCIPAL' end, p.major_id, p.minor_id, p.grantee, p.grantor,
    (select min(b.type) from meta.builtin_permissions b where b.class = p.class and b.permission = p.permission), p.permission, p.state,
    case p.state when 'G' then 'GRANT' when 'W' then 'GRANT_WITH_GRANT_OPTION' else 'DENY' end
from meta.permissions p where p.database_id = :db
  and ((select meta.sees_all(:db)) or p.grantee in (select meta.user_tokens(:db, meta.caller_in(:db))) or p.grantor = (select meta.caller_in(:db))
    or (select meta.has_permission(meta.server_login(), :db, meta.caller_in(:db), 'DATABASE', 0, 'VIEW SECURITY DEFINITION'))
    or (p.class = 1 and ((select meta.sees_everything(:db)) or p.major_id in (select meta.visible_objects(:db))) and ((select meta.sees_everything(:db)) or p.major_id in (select meta.readable_objects(:db)))))

--: sys.objects
--| {object}
{select_object} where o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: sys.all_objects
--| {object}
{select_object} where o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))
union all select name, object_id, null, case schema_name when 'sys' then 4 else 3 end, 0, type, 'VIEW', 0, 0, 1, 0, 0 from meta.system_objects

--: sys.sysobjects
--| name sysname!, id int!, xtype char(2)!, uid smallint, parent_obj int!, crdate datetime!, type char(2)
select o.name, o.object_id, o.type, o.schema_id, o.parent_object_id, o.create_date, o.type from meta.objects o where o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: sys.tables
--| {object}, lob_data_space_id int!, filestream_data_space_id int, max_column_id_used int!, lock_on_bulk_load bit!, uses_ansi_nulls bit, is_replicated bit, has_replication_filter bit, is_merge_published bit, is_sync_tran_subscribed bit, has_unchecked_assembly_data bit!, text_in_row_limit int, large_value_types_out_of_row bit, is_tracked_by_cdc bit, lock_escalation tinyint, lock_escalation_desc nvarchar(60), is_filetable bit
--| is_memory_optimized bit, durability tinyint, durability_desc nvarchar(60), temporal_type tinyint, temporal_type_desc nvarchar(60), history_table_id int, is_remote_data_archive_enabled bit, is_external bit!, history_retention_period int, history_retention_period_unit int, history_retention_period_unit_desc nvarchar(10), is_node bit, is_edge bit, data_retention_period int, data_retention_period_unit int, data_retention_period_unit_desc nvarchar(10)
--| ledger_type tinyint, ledger_type_desc nvarchar(60), ledger_view_id int, is_dropped_ledger_table bit
select {object_columns}, 0, null, coalesce((select max(column_id) from meta.columns c where c.object_id = o.object_id), 0), 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'TABLE', 0,
    0, 0, 'SCHEMA_AND_DATA', 0, 'NON_TEMPORAL_TABLE', null, 0, 0, null, null, null, 0, 0, null, null, null,
    0, 'NON_LEDGER_TABLE', null, 0
from meta.objects o where o.database_id = :db and o.type = 'U' and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: sys.views
--| {object}, is_replicated bit, has_replication_filter bit, has_opaque_metadata bit!, has_unchecked_assembly_data bit!, with_check_option bit!, is_date_correlation_view bit!, is_tracked_by_cdc bit, has_snapshot bit, ledger_view_type tinyint, ledger_view_type_desc nvarchar(60), is_dropped_ledger_view bit
select {object_columns}, 0, 0, m.has_opaque_metadata, 0, m.with_check_option, 0, 0, 0, 0, 'NON_LEDGER_VIEW', 0
from meta.objects o join meta.modules m using (object_id) where o.database_id = :db and o.type = 'V' and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: sys.procedures
--| {object}, is_auto_executed bit!, is_execution_replicated bit, is_repl_serializable_only bit, skips_repl_constraints bit
select {object_columns}, 0, 0, 0, 0
from meta.objects o where o.database_id = :db and o.type = 'P' and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: sys.triggers
--| name sysname!, object_id int!, parent_class tinyint!, parent_class_desc nvarchar(60), parent_id int!, type char(2)!, type_desc nvarchar(60), create_date datetime!, modify_date datetime!, is_ms_shipped bit!, is_disabled bit!, is_not_for_replication bit!, is_instead_of_trigger bit!
select o.name, o.object_id, 1, 'OBJECT_OR_COLUMN', t.parent_id, 'TR', 'SQL_TRIGGER', o.create_date, o.modify_date, 0, t.is_disabled, 0, t.is_instead_of
from meta.triggers t join meta.objects o using (object_id) where o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: sys.trigger_events
--| object_id int!, type int!, type_desc nvarchar(60), is_trigger_event bit, is_first bit, is_last bit, event_group_type int, event_group_type_desc nvarchar(60)
select o.object_id, case a when 'INSERT' then 1 when 'UPDATE' then 2 else 3 end, a, 1, 0, 0, null, null
from meta.triggers t join meta.objects o using (object_id), unnest(t.actions) a where o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: sys.sql_modules
--| object_id int!, definition nvarchar(max), uses_ansi_nulls bit, uses_quoted_identifier bit, is_schema_bound bit, uses_database_collation bit, is_recompiled bit, null_on_null_input bit, execute_as_principal_id int, uses_native_compilation bit, inline_type bit, is_inlineable bit
select m.object_id, case when ((select meta.sees_everything(:db)) or m.object_id in (select meta.readable_objects(:db))) then m.definition end, m.uses_ansi_nulls, m.uses_quoted_identifier, m.is_schema_bound, m.uses_database_collation, 0, 0, m.execute_as_principal_id, 0, 0, 0
from meta.modules m join meta.objects o using (object_id) where o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: sys.all_sql_modules
--| object_id int!, definition nvarchar(max), uses_ansi_nulls bit, uses_quoted_identifier bit, is_schema_bound bit, uses_database_collation bit, is_recompiled bit, null_on_null_input bit, execute_as_principal_id int, uses_native_compilation bit
select m.object_id, case when ((select meta.sees_everything(:db)) or m.object_id in (select meta.readable_objects(:db))) then m.definition end, m.uses_ansi_nulls, m.uses_quoted_identifier, m.is_schema_bound, m.uses_database_collation, 0, 0, m.execute_as_principal_id, 0
from meta.modules m join meta.objects o using (object_id) where o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: sys.parameters
--| object_id int!, name sysname, parameter_id int!, system_type_id tinyint!, user_type_id int!, max_length smallint!, precision tinyint!, scale tinyint!, is_output bit!, is_cursor_ref bit!, has_default_value bit!, is_xml_document bit!, default_value nvarchar(4000), is_readonly bit!, is_nullable bit
select p.object_id, p.name, p.parameter_id, meta.system_type_id(p.type_name), meta.user_type_id(p.type_name), meta.max_length(p.type_name, p.length, p.precision, p.scale), meta.column_precision(p.type_name, p.length, p.precision, p.scale), meta.type_scale(p.type_name, p.scale), p.is_output, 0, 0, 0, null, 0, 1
from meta.parameters p join meta.objects o using (object_id) where o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: sys.types
--| name sysname!, system_type_id tinyint!, user_type_id int!, schema_id int!, principal_id int, max_length smallint!, precision tinyint!, scale tinyint!, collation_name sysname, is_nullable bit, is_user_defined bit!, is_assembly_type bit!, default_object_id int!, rule_object_id int!, is_table_type bit!
select t.name, t.system_type_id, t.user_type_id, 4, null, t.max_length, t.precision, t.scale, case when t.takes_collation then d.collation_name end, t.name <> 'sysname', 0, t.system_type_id = 240, 0, 0, 0
from meta.types t, meta.databases d where d.database_id = :db

--: sys.columns
--| {column}
{select_column} where o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: sys.all_columns
--| {column}
{select_column} where o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))
order by o.object_id, c.column_id  -- as a server answers without ORDER BY: drivers' bulk copy maps columns by it

--: sys.computed_columns
--| {column}, definition nvarchar(max), uses_database_collation bit!, is_persisted bit!
select {column_columns}, c.computed, 1, c.is_persisted
from meta.columns c join meta.objects o using (object_id) where c.computed is not null and o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: sys.identity_columns
--| {column}, seed_value decimal(38,0), increment_value decimal(38,0), last_value decimal(38,0), is_not_for_replication bit
select {column_columns}, c.seed_value, c.increment_value, pg_sequence_last_value(format('data.s%s', c.object_id)::regclass), 0
from meta.columns c join meta.objects o using (object_id) where c.is_identity and o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: sys.masked_columns
--| {column}, masking_function nvarchar(4000)
select {column_columns}, c.masking_function
from meta.columns c join meta.objects o using (object_id) where c.masking_function is not null and o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: sys.indexes
--| object_id int!, name sysname, index_id int!, type tinyint!, type_desc nvarchar(60), is_unique bit, data_space_id int, ignore_dup_key bit, is_primary_key bit, is_unique_constraint bit, fill_factor tinyint!, is_padded bit, is_disabled bit, is_hypothetical bit, is_ignored_in_optimization bit, allow_row_locks bit, allow_page_locks bit, has_filter bit, filter_definition nvarchar(max), compression_delay int, suppress_dup_key_messages bit, auto_created bit, optimize_for_sequential_key bit
select i.object_id, i.name, i.index_id, i.type, (array['HEAP', 'CLUSTERED', 'NONCLUSTERED', 'XML', 'SPATIAL', 'CLUSTERED COLUMNSTORE', 'NONCLUSTERED COLUMNSTORE'])[i.type + 1], i.is_unique, 1, i.ignore_dup_key, i.is_primary_key, i.is_unique_constraint, i.fill_factor, i.is_padded, i.is_disabled, 0, 0, i.allow_row_locks, i.allow_page_locks, i.filter_definition is not null, i.filter_definition, case when i.type in (5, 6) then 0 end, 0, 0, i.optimize_for_sequential_key
from meta.indexes i join meta.objects o using (object_id) where o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))
union all
select o.object_id, null, 0, 0, 'HEAP', false, 1, false, false, false, 0, false, false, 0, 0, true, true, false, null, null, 0, 0, false
from meta.objects o where o.database_id = :db and o.type = 'U' and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))
  and not exists (select from meta.indexes i where i.object_id = o.object_id and i.index_id = 1)

--: sys.index_columns
--| object_id int!, index_id int!, index_column_id int!, column_id int!, key_ordinal tinyint!, partition_ordinal tinyint!, is_descending_key bit, is_included_column bit, column_store_order_ordinal tinyint!
select k.object_id, k.index_id, k.index_column_id, k.column_id, k.key_ordinal, 0, k.is_descending, k.is_included, 0
from meta.index_columns k join meta.objects o using (object_id) where o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: sys.stats
--| object_id int!, name nvarchar(128), stats_id int!, auto_created bit, user_created bit, no_recompute bit, has_filter bit, filter_definition nvarchar(max)
select i.object_id, i.name, i.index_id, 0, 0, 0, i.filter_definition is not null, i.filter_definition
from meta.indexes i join meta.objects o using (object_id) where o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: sys.partitions
--| partition_id bigint!, object_id int!, index_id int!, partition_number int!, hobt_id bigint!, rows bigint, filestream_filegroup_id smallint!, data_compression tinyint!, data_compression_desc nvarchar(60), xml_compression bit, xml_compression_desc varchar(3)
select 72057594000000000 + i.object_id::bigint * 1000 + i.index_id, i.object_id, i.index_id, 1, 72057594000000000 + i.object_id::bigint * 1000 + i.index_id,
    meta.row_count(i.object_id), 0, i.compression, (array['NONE', 'ROW', 'PAGE', 'COLUMNSTORE', 'COLUMNSTORE_ARCHIVE'])[i.compression + 1], 0, 'OFF'
from (
    select i.object_id, i.index_id, i.compression from meta.indexes i
    union all select o.object_id, 0, coalesce(t.heap_compression, 0) from meta.objects o left join meta.heaps t using (object_id)
    where o.type = 'U' and not exists (select from meta.indexes i where i.object_id = o.object_id and i.index_id = 1)
) i join meta.objects o using (object_id) where o.database_id = :db and o.type = 'U' and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: sys.key_constraints
--| {object}, unique_index_id int, is_system_named bit!, is_enforced bit
select {object_columns}, k.index_id, o.is_system_named, 1
from meta.key_constraints k join meta.objects o using (object_id) where o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: sys.check_constraints
--| {object}, is_disabled bit!, is_not_for_replication bit!, is_not_trusted bit!, parent_column_id int!, definition nvarchar(max), uses_database_collation bit, is_system_named bit!
select {object_columns}, k.is_disabled, 0, k.is_not_trusted, k.parent_column_id, case when ((select meta.sees_everything(:db)) or o.object_id in (select meta.readable_objects(:db))) then k.definition end, k.uses_database_collation, o.is_system_named
from meta.check_constraints k join meta.objects o using (object_id) where o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: sys.default_constraints
--| {object}, parent_column_id int!, definition nvarchar(max), is_system_named bit!
select {object_columns}, k.parent_column_id, case when ((select meta.sees_everything(:db)) or o.object_id in (select meta.readable_objects(:db))) then k.definition end, o.is_system_named
from meta.default_constraints k join meta.objects o using (object_id) where o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: sys.foreign_keys
--| {object}, referenced_object_id int, key_index_id int, is_disabled bit!, is_not_for_replication bit!, is_not_trusted bit!, delete_referential_action tinyint, delete_referential_action_desc nvarchar(60), update_referential_action tinyint, update_referential_action_desc nvarchar(60), is_system_named bit!
select {object_columns}, k.referenced_object_id, k.key_index_id, k.is_disabled, 0, k.is_not_trusted, k.delete_action, (array['NO_ACTION', 'CASCADE', 'SET_NULL', 'SET_DEFAULT'])[k.delete_action + 1], k.update_action, (array['NO_ACTION', 'CASCADE', 'SET_NULL', 'SET_DEFAULT'])[k.update_action + 1], o.is_system_named
from meta.foreign_keys k join meta.objects o using (object_id) where o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: sys.foreign_key_columns
--| constraint_object_id int!, constraint_column_id int!, parent_object_id int!, parent_column_id int!, referenced_object_id int!, referenced_column_id int!
select c.object_id, c.ordinal, k.parent_object_id, c.parent_column_id, k.referenced_object_id, c.referenced_column_id
from meta.foreign_key_columns c join meta.foreign_keys k using (object_id) join meta.objects o using (object_id) where o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: sys.sql_expression_dependencies
--| referencing_id int!, referencing_minor_id int!, referencing_class tinyint, referencing_class_desc nvarchar(60), is_schema_bound_reference bit!, referenced_class tinyint, referenced_class_desc nvarchar(60), referenced_server_name sysname, referenced_database_name sysname, referenced_schema_name sysname, referenced_entity_name sysname, referenced_id int, referenced_minor_id int!, is_caller_dependent bit!, is_ambiguous bit!
select d.object_id, 0, 1, 'OBJECT_OR_COLUMN', 0, 1, 'OBJECT_OR_COLUMN', d.server_name, d.database_name, d.schema_name, d.entity_name,
    meta.find_object(coalesce(meta.database_named(d.database_name), :db), coalesce(d.schema_name, 'dbo'), d.entity_name), 0, d.schema_name is null, 0
from meta.dependencies d join meta.objects o using (object_id) where o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db))) and (select meta.sees_all(:db))

--: sys.extended_properties
--| class tinyint!, class_desc nvarchar(60), major_id int!, minor_id int!, name sysname!, value nvarchar(4000)
select class, case class when 0 then 'DATABASE' when 1 then 'OBJECT_OR_COLUMN' when 3 then 'SCHEMA' when 7 then 'INDEX' else 'OTHER' end, major_id, minor_id, name, value
from meta.extended_properties where database_id = :db and (class <> 1 or ((select meta.sees_everything(:db)) or major_id in (select meta.visible_objects(:db))))

--: sys.data_spaces
--| name sysname!, data_space_id int!, type char(2)!, type_desc nvarchar(60), is_default bit, is_system bit
select 'PRIMARY', 1, 'FG', 'ROWS_FILEGROUP', 1, 0

--: sys.filegroups
--| name sysname!, data_space_id int!, type char(2)!, type_desc nvarchar(60), is_default bit, is_system bit, filegroup_guid uniqueidentifier, log_filegroup_id int, is_read_only bit, is_autogrow_all_files bit
select 'PRIMARY', 1, 'FG', 'ROWS_FILEGROUP', 1, 0, null, null, 0, 0

--: sys.assemblies
--| name sysname!, principal_id int, assembly_id int!, clr_name nvarchar(4000), permission_set tinyint, permission_set_desc nvarchar(60), is_visible bit!, create_date datetime!, modify_date datetime!, is_user_defined bit
select 'Microsoft.SqlServer.Types', 4, 1, 'microsoft.sqlserver.types', 3, 'UNSAFE_ACCESS', 1, create_date, create_date, 0 from meta.databases where database_id = :db

--: sys.change_tracking_tables
--| object_id int!, is_track_columns_updated_on bit!, min_valid_version bigint, begin_version bigint, cleanup_version bigint
select null, null, null, null, null where false

--: sys.change_tracking_databases
--| database_id int!, is_auto_cleanup_on tinyint, retention_period int, retention_period_units tinyint, retention_period_units_desc nvarchar(60), max_cleanup_version bigint
select null, null, null, null, null, null where false

--: sys.fulltext_indexes
--| object_id int!, unique_index_id int!, fulltext_catalog_id int, is_enabled bit!, change_tracking_state char(1), change_tracking_state_desc nvarchar(60)
select null, null, null, null, null, null where false

--: sys.security_policies
--| {object}, is_not_for_replication bit!, uses_database_collation bit, is_enabled bit!, is_schema_bound bit!
select null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null where false

--: sys.security_predicates
--| object_id int!, security_predicate_id int!, target_object_id int!, predicate_definition nvarchar(max), predicate_type int, predicate_type_desc nvarchar(60), operation int, operation_desc nvarchar(60)
select null, null, null, null, null, null, null, null where false

--: sys.synonyms
--| {object}, base_object_name nvarchar(1035)
select null, null, null, null, null, null, null, null, null, null, null, null, null where false

--: sys.sequences
--| {object}, start_value decimal(38,0), increment decimal(38,0), current_value decimal(38,0)
select null, null, null, null, null, null, null, null, null, null, null, null, null, null, null where false

--: sys.periods
--| name sysname!, period_type tinyint, period_type_desc nvarchar(60), object_id int!, start_column_id int!, end_column_id int!
select null, null, null, null, null, null where false

--: sys.credentials
--| credential_id int!, name sysname!, credential_identity nvarchar(4000), create_date datetime!, modify_date datetime!
select null, null, null, null, null where false

--: INFORMATION_SCHEMA.SCHEMATA
--| CATALOG_NAME nvarchar(128), SCHEMA_NAME nvarchar(128)!, SCHEMA_OWNER nvarchar(128), DEFAULT_CHARACTER_SET_CATALOG varchar(6), DEFAULT_CHARACTER_SET_SCHEMA varchar(3), DEFAULT_CHARACTER_SET_NAME nvarchar(128)
select d.name, s.name, p.name, null, null, 'iso_1' from meta.schemas s join meta.databases d using (database_id) left join meta.principals p using (database_id, principal_id) where s.database_id = :db

--: INFORMATION_SCHEMA.TABLES
--| TABLE_CATALOG nvarchar(128), TABLE_SCHEMA nvarchar(128), TABLE_NAME sysname!, TABLE_TYPE varchar(10)
select d.name, s.name, o.name, case o.type when 'U' then 'BASE TABLE' else 'VIEW' end
from meta.objects o join meta.databases d using (database_id) join meta.schemas s using (database_id, schema_id) where o.database_id = :db and o.type in ('U', 'V') and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: INFORMATION_SCHEMA.VIEWS
--| TABLE_CATALOG nvarchar(128), TABLE_SCHEMA nvarchar(128), TABLE_NAME nvarchar(128)!, VIEW_DEFINITION nvarchar(4000), CHECK_OPTION varchar(7), IS_UPDATABLE varchar(2)!
select d.name, s.name, o.name, case when length(m.definition) <= 4000 and ((select meta.sees_everything(:db)) or o.object_id in (select meta.readable_objects(:db))) then m.definition end, 'NONE', 'NO'
from meta.objects o join meta.modules m using (object_id) join meta.databases d using (database_id) join meta.schemas s using (database_id, schema_id) where o.database_id = :db and o.type = 'V' and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: INFORMATION_SCHEMA.COLUMNS
--| TABLE_CATALOG nvarchar(128), TABLE_SCHEMA nvarchar(128), TABLE_NAME nvarchar(128)!, COLUMN_NAME sysname, ORDINAL_POSITION int, COLUMN_DEFAULT nvarchar(4000), IS_NULLABLE varchar(3), DATA_TYPE nvarchar(128), CHARACTER_MAXIMUM_LENGTH int, CHARACTER_OCTET_LENGTH int, NUMERIC_PRECISION tinyint, NUMERIC_PRECISION_RADIX smallint, NUMERIC_SCALE int, DATETIME_PRECISION smallint
--| CHARACTER_SET_CATALOG sysname, CHARACTER_SET_SCHEMA sysname, CHARACTER_SET_NAME sysname, COLLATION_CATALOG sysname, COLLATION_SCHEMA sysname, COLLATION_NAME sysname, DOMAIN_CATALOG sysname, DOMAIN_SCHEMA sysname, DOMAIN_NAME sysname
select d.name, s.name, o.name, c.name, row_number() over (partition by c.object_id order by c.column_id), k.definition, case when c.is_nullable then 'YES' else 'NO' end,
    case c.type_name when 'rowversion' then 'timestamp' when 'sysname' then 'nvarchar' else c.type_name end,
    case when c.type_name in ('text', 'image') then 2147483647 when c.type_name = 'ntext' then 1073741823 when c.type_name = 'xml' then -1 when c.type_name = 'sysname' then 128 else c.length end,
    case when c.type_name in ('text', 'image') then 2147483647 when c.type_name = 'ntext' then 2147483646 when c.type_name = 'xml' then -1 when c.type_name = 'sysname' then 256 when c.length is not null then meta.max_length(c.type_name, c.length, c.precision, c.scale) end,
    case when c.type_name in ('tinyint', 'smallint', 'int', 'bigint', 'decimal', 'numeric', 'money', 'smallmoney', 'real', 'float') then meta.type_precision(c.type_name, c.length, c.precision) end,
    case when c.type_name in ('tinyint', 'smallint', 'int', 'bigint', 'decimal', 'numeric', 'money', 'smallmoney') then 10 when c.type_name in ('real', 'float') then 2 end,
    case when c.type_name in ('tinyint', 'smallint', 'int', 'bigint', 'decimal', 'numeric', 'money', 'smallmoney') then meta.type_scale(c.type_name, c.scale) end,
    case c.type_name when 'date' then 0 when 'smalldatetime' then 0 when 'datetime' then 3 when 'time' then c.scale when 'datetime2' then c.scale when 'datetimeoffset' then c.scale end,
    null, null, case when c.type_name in ('char', 'varchar', 'text') then 'iso_1' when c.type_name in ('nchar', 'nvarchar', 'ntext', 'sysname') then 'UNICODE' end, null, null, c.collation_name, null, null, null
from meta.columns c join meta.objects o using (object_id) join meta.databases d using (database_id) join meta.schemas s using (database_id, schema_id)
left join meta.default_constraints k on k.object_id = c.default_object_id
where o.database_id = :db and o.type in ('U', 'V') and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: INFORMATION_SCHEMA.TABLE_CONSTRAINTS
--| CONSTRAINT_CATALOG nvarchar(128), CONSTRAINT_SCHEMA nvarchar(128), CONSTRAINT_NAME sysname!, TABLE_CATALOG nvarchar(128), TABLE_SCHEMA nvarchar(128), TABLE_NAME sysname, CONSTRAINT_TYPE varchar(11), IS_DEFERRABLE varchar(2)!, INITIALLY_DEFERRED varchar(2)!
select d.name, s.name, o.name, d.name, s.name, p.name, case o.type when 'PK' then 'PRIMARY KEY' when 'UQ' then 'UNIQUE' when 'F' then 'FOREIGN KEY' else 'CHECK' end, 'NO', 'NO'
from meta.objects o join meta.objects p on p.object_id = o.parent_object_id join meta.databases d on d.database_id = o.database_id join meta.schemas s on s.database_id = o.database_id and s.schema_id = o.schema_id
where o.database_id = :db and o.type in ('PK', 'UQ', 'F', 'C') and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: INFORMATION_SCHEMA.KEY_COLUMN_USAGE
--| CONSTRAINT_CATALOG nvarchar(128), CONSTRAINT_SCHEMA nvarchar(128), CONSTRAINT_NAME nvarchar(128)!, TABLE_CATALOG nvarchar(128), TABLE_SCHEMA nvarchar(128), TABLE_NAME nvarchar(128)!, COLUMN_NAME nvarchar(128), ORDINAL_POSITION int!
select d.name, s.name, o.name, d.name, s.name, p.name, c.name, k.ordinal
from (select k.object_id, k.parent_object_id, i.column_id, i.key_ordinal::int ordinal from meta.key_constraints k join meta.index_columns i on i.object_id = k.parent_object_id and i.index_id = k.index_id
      union all select f.object_id, f.parent_object_id, c.parent_column_id, c.ordinal from meta.foreign_keys f join meta.foreign_key_columns c using (object_id)) k
join meta.objects o on o.object_id = k.object_id join meta.objects p on p.object_id = k.parent_object_id join meta.columns c on c.object_id = k.parent_object_id and c.column_id = k.column_id
join meta.databases d on d.database_id = o.database_id join meta.schemas s on s.database_id = o.database_id and s.schema_id = o.schema_id
where o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS
--| CONSTRAINT_CATALOG nvarchar(128), CONSTRAINT_SCHEMA nvarchar(128), CONSTRAINT_NAME sysname!, UNIQUE_CONSTRAINT_CATALOG nvarchar(128), UNIQUE_CONSTRAINT_SCHEMA nvarchar(128), UNIQUE_CONSTRAINT_NAME sysname, MATCH_OPTION varchar(7), UPDATE_RULE varchar(11), DELETE_RULE varchar(11)
select d.name, s.name, o.name, d.name, rs.name, i.name, 'SIMPLE', (array['NO ACTION', 'CASCADE', 'SET NULL', 'SET DEFAULT'])[k.update_action + 1], (array['NO ACTION', 'CASCADE', 'SET NULL', 'SET DEFAULT'])[k.delete_action + 1]
from meta.foreign_keys k join meta.objects o using (object_id) join meta.databases d using (database_id) join meta.schemas s using (database_id, schema_id)
join meta.objects r on r.object_id = k.referenced_object_id join meta.schemas rs on rs.database_id = r.database_id and rs.schema_id = r.schema_id
join meta.indexes i on i.object_id = k.referenced_object_id and i.index_id = k.key_index_id
where o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: INFORMATION_SCHEMA.CHECK_CONSTRAINTS
--| CONSTRAINT_CATALOG nvarchar(128), CONSTRAINT_SCHEMA nvarchar(128), CONSTRAINT_NAME sysname!, CHECK_CLAUSE nvarchar(4000)
select d.name, s.name, o.name, k.definition from meta.check_constraints k join meta.objects o using (object_id) join meta.databases d using (database_id) join meta.schemas s using (database_id, schema_id)
where o.database_id = :db and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: INFORMATION_SCHEMA.ROUTINES
--| SPECIFIC_CATALOG nvarchar(128), SPECIFIC_SCHEMA nvarchar(128), SPECIFIC_NAME nvarchar(128)!, ROUTINE_CATALOG nvarchar(128), ROUTINE_SCHEMA nvarchar(128), ROUTINE_NAME nvarchar(128)!, ROUTINE_TYPE nvarchar(20), ROUTINE_DEFINITION nvarchar(4000), CREATED datetime!, LAST_ALTERED datetime!
select d.name, s.name, o.name, d.name, s.name, o.name, 'PROCEDURE', left(m.definition, 4000), o.create_date, o.modify_date
from meta.objects o join meta.modules m using (object_id) join meta.databases d using (database_id) join meta.schemas s using (database_id, schema_id) where o.database_id = :db and o.type = 'P' and ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db)))

--: INFORMATION_SCHEMA.TABLE_PRIVILEGES
--| GRANTOR nvarchar(128), GRANTEE nvarchar(128), TABLE_CATALOG nvarchar(128), TABLE_SCHEMA nvarchar(128), TABLE_NAME sysname!, PRIVILEGE_TYPE varchar(10), IS_GRANTABLE varchar(3)
select gr.name, ge.name, d.name, s.name, o.name, p.permission, case p.state when 'W' then 'YES' else 'NO' end
from meta.permissions p join meta.objects o on o.object_id = p.major_id and o.database_id = p.database_id join meta.databases d on d.database_id = o.database_id join meta.schemas s on s.database_id = o.database_id and s.schema_id = o.schema_id
join meta.principals gr on gr.database_id = p.database_id and gr.principal_id = p.grantor join meta.principals ge on ge.database_id = p.database_id and ge.principal_id = p.grantee
where p.database_id = :db and p.class = 1 and p.minor_id = 0 and p.state in ('G', 'W') and p.permission in ('SELECT', 'INSERT', 'UPDATE', 'DELETE', 'REFERENCES') and o.type in ('U', 'V')
  and (p.grantee in (select meta.user_tokens(:db, meta.caller_in(:db))) or p.grantor in (select meta.user_tokens(:db, meta.caller_in(:db))) or ((select meta.sees_everything(:db)) or o.object_id in (select meta.visible_objects(:db))))
