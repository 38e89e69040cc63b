"""Dynamic management views that tell of sessions, requests, transactions and locks: columns, and rows at execution.

Without VIEW SERVER STATE (or VIEW SERVER PERFORMANCE STATE) a caller sees itself in dm_exec_sessions and
dm_exec_requests, and may not read the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tsqldev.errors import SqlError
from tsqldev.interfaces import Column
from tsqldev.session import lockrows
from tsqldev.session.registry import SessionRecord
from tsqldev.session.transactions import next_transaction_id
from tsqldev.types import BIGINT, BIT, DATETIME, INT, SMALLINT, TINYINT, UNIQUEIDENTIFIER, SqlType, nvarchar, varbinary

if TYPE_CHECKING:
    from tsqldev.session.interp import Interpreter

Rows = list[dict[str, object]]

_TYPES: dict[str, SqlType] = {
    "smallint": SMALLINT,
    "int": INT,
    "bigint": BIGINT,
    "bit": BIT,
    "tinyint": TINYINT,
    "datetime": DATETIME,
    "guid": UNIQUEIDENTIFIER,
    "sid": varbinary(85),
    "context": varbinary(128),
    "handle": varbinary(64),
    "name": nvarchar(128),
    "text": nvarchar(60),
    "short": nvarchar(40),
    "address": nvarchar(48),
    "long": nvarchar(256),
}

_NOT_NULL = frozenset({"session_id", "login_time", "login_name", "security_id", "original_login_name", "status",
                       "original_security_id", "transaction_id", "is_user_process", "open_transaction_count",
                       "database_id", "request_session_id"})  # fmt: skip


def _columns(text: str) -> tuple[Column, ...]:
    columns = []
    for number, item in enumerate(text.split(","), 1):
        name, type = item.split()
        columns.append(Column(name, _TYPES[type].with_nullable(name not in _NOT_NULL), column_id=number))
    return tuple(columns)


COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "dm_exec_sessions": _columns(
        "session_id smallint, login_time datetime, host_name name, program_name name, host_process_id int,"
        " client_version int, client_interface_name name, security_id sid, login_name name, nt_domain name,"
        " nt_user_name name, status text, context_info context, cpu_time int, memory_usage int,"
        " total_scheduled_time int, total_elapsed_time int, endpoint_id int, last_request_start_time datetime,"
        " last_request_end_time datetime, reads bigint, writes bigint, logical_reads bigint, is_user_process bit,"
        " text_size int, language name, date_format text, date_first smallint, quoted_identifier bit, arithabort bit,"
        " ansi_null_dflt_on bit, ansi_defaults bit, ansi_warnings bit, ansi_padding bit, ansi_nulls bit,"
        " concat_null_yields_null bit, transaction_isolation_level smallint, lock_timeout int, deadlock_priority int,"
        " row_count bigint, prev_error int, original_security_id sid, original_login_name name,"
        " last_successful_logon datetime, last_unsuccessful_logon datetime, unsuccessful_logons bigint, group_id int,"
        " database_id smallint, authenticating_database_id int, open_transaction_count int, page_server_reads bigint"
    ),
    "dm_exec_connections": _columns(
        "session_id int, most_recent_session_id int, connect_time datetime, net_transport short, protocol_type short,"
        " protocol_version int, endpoint_id int, encrypt_option short, auth_scheme short, node_affinity smallint,"
        " num_reads int, num_writes int, last_read datetime, last_write datetime, net_packet_size int,"
        " client_net_address address, client_tcp_port int, local_net_address address, local_tcp_port int,"
        " connection_id guid, parent_connection_id guid, most_recent_sql_handle handle"
    ),
    "dm_exec_requests": _columns(
        "session_id smallint, request_id int, start_time datetime, status text, command text, sql_handle handle,"
        " statement_start_offset int, statement_end_offset int, database_id smallint, user_id int, connection_id guid,"
        " blocking_session_id smallint, wait_type text, wait_time int, last_wait_type text, wait_resource long,"
        " open_transaction_count int, open_resultset_count int, transaction_id bigint, percent_complete int,"
        " cpu_time int, total_elapsed_time int, reads bigint, writes bigint, logical_reads bigint,"
        " transaction_isolation_level smallint, lock_timeout int, deadlock_priority int, row_count bigint,"
        " prev_error int, nest_level int"
    ),
    "dm_tran_session_transactions": _columns(
        "session_id int, transaction_id bigint, transaction_descriptor handle, enlist_count int,"
        " is_user_transaction bit, is_local bit, is_enlisted bit, is_bound bit, open_transaction_count int"
    ),
    "dm_tran_active_transactions": _columns(
        "transaction_id bigint, name name, transaction_begin_time datetime, transaction_type int, transaction_uow guid,"
        " transaction_state int, transaction_status int, transaction_status2 int, dtc_state int, dtc_status int,"
        " dtc_isolation_level int"
    ),
    "dm_tran_database_transactions": _columns(
        "transaction_id bigint, database_id int, database_transaction_begin_time datetime,"
        " database_transaction_type int, database_transaction_state int, database_transaction_status int,"
        " database_transaction_status2 int, database_transaction_log_record_count bigint,"
        " database_transaction_log_bytes_used bigint, database_transaction_log_bytes_reserved bigint"
    ),
    "dm_tran_current_transaction": _columns(
        "transaction_id bigint, transaction_sequence_num bigint, transaction_is_snapshot bit,"
        " first_snapshot_sequence_num bigint, last_transaction_sequence_num bigint,"
        " first_useful_sequence_num bigint"
    ),
    "dm_tran_locks": _columns(
        "resource_type text, resource_subtype text, resource_database_id int, resource_description long,"
        " resource_associated_entity_id bigint, resource_lock_partition int, request_mode text, request_type text,"
        " request_status text, request_reference_count smallint, request_lifetime int, request_session_id int,"
        " request_exec_context_id int, request_request_id int, request_owner_type text, request_owner_id bigint,"
        " request_owner_guid guid, request_owner_lockspace_id text, lock_owner_address handle"
    ),
}


def rows(interp: Interpreter, view: str) -> Rows:
    """The rows of a view as this caller may see them."""
    make = _ROWS.get(view)
    if make is None:
        raise SqlError(208, f"Invalid object name 'sys.{view}'.")
    needed = _NEEDED.get(view)
    if needed is not None:
        interp.session.access.require_server(interp.session.principal, needed)
    return make(interp)


def _seen(interp: Interpreter) -> list[SessionRecord]:
    session = interp.session
    everything = session.engine.registry.all()
    if session.sees_server_state():
        return everything
    return [record for record in everything if record.spid == session.spid]


def _hex(data: bytes) -> str:
    return "\\x" + data.hex()


def _sessions(interp: Interpreter) -> Rows:
    return [
        {
            "session_id": record.spid,
            "login_time": record.login_time,
            "host_name": record.host_name or None,
            "program_name": record.program_name or None,
            "host_process_id": record.client_pid,
            "client_version": 7,
            "client_interface_name": record.client_library or None,
            "security_id": _hex(record.security_id),
            "login_name": record.login_name,
            "nt_domain": None,
            "nt_user_name": None,
            "status": record.status,
            "context_info": None,
            "cpu_time": 0,
            "memory_usage": 2,
            "total_scheduled_time": 0,
            "total_elapsed_time": 0,
            "endpoint_id": 4,
            "last_request_start_time": record.last_request_start,
            "last_request_end_time": record.last_request_end,
            "reads": 0,
            "writes": 0,
            "logical_reads": 0,
            "is_user_process": 1,
            "text_size": 2147483647,
            "language": record.language,
            "date_format": "mdy",
            "date_first": 7,
            **record.ansi,
            "ansi_defaults": 0,
            "transaction_isolation_level": record.isolation,
            "lock_timeout": record.lock_timeout,
            "deadlock_priority": 0,
            "row_count": record.row_count,
            "prev_error": record.last_error,
            "original_security_id": _hex(record.original_security_id),
            "original_login_name": record.original_login_name,
            "last_successful_logon": None,
            "last_unsuccessful_logon": None,
            "unsuccessful_logons": None,
            "group_id": 2,
            "database_id": record.database_id,
            "authenticating_database_id": record.authenticating_database_id,
            "open_transaction_count": record.transaction_count,
            "page_server_reads": 0,
        }
        for record in _seen(interp)
    ]


def _connections(interp: Interpreter) -> Rows:
    return [
        {
            "session_id": record.spid,
            "most_recent_session_id": record.spid,
            "connect_time": record.login_time or record.last_request_start,
            "net_transport": "TCP",
            "protocol_type": "TSQL",
            "protocol_version": 1946157060,
            "endpoint_id": 4,
            "encrypt_option": "TRUE" if record.encrypted else "FALSE",
            "auth_scheme": "SQL",
            "node_affinity": 0,
            "num_reads": 0,
            "num_writes": 0,
            "last_read": record.last_request_start,
            "last_write": record.last_request_end,
            "net_packet_size": record.packet_size,
            "client_net_address": "127.0.0.1",
            "local_net_address": "127.0.0.1",
            "connection_id": str(record.connection_id),
        }
        for record in _seen(interp)
    ]


def _requests(interp: Interpreter) -> Rows:
    blocked = lockrows.blocked(interp.session.engine.registry)
    return [
        {
            "session_id": record.spid,
            "request_id": 0,
            "start_time": record.last_request_start,
            "status": "suspended" if record.spid in blocked else record.status,
            "command": record.command or "SELECT",
            "database_id": record.database_id,
            "user_id": 1,
            "connection_id": str(record.connection_id),
            "blocking_session_id": min(blocked.get(record.spid, (0,))),
            "wait_type": "LCK_M_X" if record.spid in blocked else None,
            "wait_time": 0,
            "last_wait_type": "MISCELLANEOUS",
            "wait_resource": "",
            "open_transaction_count": record.transaction_count,
            "open_resultset_count": 0,
            "transaction_id": record.transaction_id,
            "percent_complete": 0,
            "cpu_time": 0,
            "total_elapsed_time": 0,
            "reads": 0,
            "writes": 0,
            "logical_reads": 0,
            "transaction_isolation_level": record.isolation,
            "lock_timeout": record.lock_timeout,
            "deadlock_priority": 0,
            "row_count": record.row_count,
            "prev_error": record.last_error,
            "nest_level": 0,
        }
        for record in _seen(interp)
        if record.status in ("running", "rollback")
    ]


def _session_transactions(interp: Interpreter) -> Rows:
    return [
        {
            "session_id": record.spid,
            "transaction_id": record.transaction_id,
            "transaction_descriptor": _hex(record.transaction_id.to_bytes(8, "little")),
            "enlist_count": 1 if record.status == "running" else 0,
            "is_user_transaction": 1,
            "is_local": 1,
            "is_enlisted": 0,
            "is_bound": 0,
            "open_transaction_count": record.transaction_count,
        }
        for record in _seen(interp)
        if record.transaction_id
    ]


def _active_transactions(interp: Interpreter) -> Rows:
    return [
        {
            "transaction_id": record.transaction_id,
            "name": record.transaction_name or "user_transaction",
            "transaction_begin_time": record.transaction_began,
            "transaction_type": 1,
            "transaction_state": 2,
            "transaction_status": 0,
            "transaction_status2": 0,
            "dtc_state": 0,
            "dtc_status": 0,
            "dtc_isolation_level": -1,
        }
        for record in _seen(interp)
        if record.transaction_id
    ]


def _database_transactions(interp: Interpreter) -> Rows:
    return [
        {
            "transaction_id": record.transaction_id,
            "database_id": record.database_id,
            "database_transaction_begin_time": record.transaction_began if record.transaction_wrote else None,
            "database_transaction_type": 1 if record.transaction_wrote else 2,
            "database_transaction_state": 4 if record.transaction_wrote else 3,
            "database_transaction_status": 0,
            "database_transaction_status2": 0,
            "database_transaction_log_record_count": 1 if record.transaction_wrote else 0,
            "database_transaction_log_bytes_used": 100 if record.transaction_wrote else 0,
            "database_transaction_log_bytes_reserved": 0,
        }
        for record in _seen(interp)
        if record.transaction_id
    ]


def _current_transaction(interp: Interpreter) -> Rows:
    transactions = interp.session.transactions
    return [
        {
            "transaction_id": transactions.id or next_transaction_id(),
            "transaction_sequence_num": 0,
            "transaction_is_snapshot": int(transactions.snapshot),
            "first_snapshot_sequence_num": None,
            "last_transaction_sequence_num": 0,
            "first_useful_sequence_num": 0,
        }
    ]


def _locks(interp: Interpreter) -> Rows:
    return lockrows.rows(interp.session, _seen(interp))


_NEEDED = {
    "dm_exec_connections": "VIEW SERVER SECURITY STATE",
    "dm_tran_session_transactions": "VIEW SERVER PERFORMANCE STATE",
    "dm_tran_active_transactions": "VIEW SERVER PERFORMANCE STATE",
    "dm_tran_database_transactions": "VIEW SERVER PERFORMANCE STATE",
    "dm_tran_current_transaction": "VIEW SERVER PERFORMANCE STATE",
    "dm_tran_locks": "VIEW SERVER PERFORMANCE STATE",
}

_ROWS: dict[str, Callable[[Interpreter], Rows]] = {
    "dm_exec_sessions": _sessions,
    "dm_exec_connections": _connections,
    "dm_exec_requests": _requests,
    "dm_tran_session_transactions": _session_transactions,
    "dm_tran_active_transactions": _active_transactions,
    "dm_tran_database_transactions": _database_transactions,
    "dm_tran_current_transaction": _current_transaction,
    "dm_tran_locks": _locks,
}
