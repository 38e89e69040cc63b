"""What Airflow reads about this package before it imports anything of it (entry point ``apache_airflow_provider``)."""

from __future__ import annotations

from typing import Any

_TEXT = {"type": ["string", "null"]}
_FLAG = {"type": ["boolean", "null"]}

_SECONDS = {"type": ["integer", "null"], "default": 15, "minimum": 1, "maximum": 3600}
_CONNECT_TIMEOUT = {
    "label": "Connect timeout",
    "description": "Seconds to wait for the server to answer.",
    "schema": _SECONDS,
}

_SERVICE_ID = {
    "label": "Service id",
    "description": "The service incarnation that the ledger was installed for; a connection to another one is refused.",
    "schema": {**_TEXT, "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
}


def _integration(kind: str) -> dict[str, Any]:
    return {"integration-name": "dpone", "python-modules": [f"airflow_provider_dpone.{kind}"]}


def get_provider_info() -> dict[str, Any]:
    """The document that ``provider_info.schema.json`` of Airflow describes."""
    return {
        "package-name": "airflow-provider-dpone",
        "name": "dpone guarded attempts",
        "description": "Guarded attempts: dbt on SQL Server, PostgreSQL to SQL Server, SQL Server to ClickHouse.",
        "integrations": [{"integration-name": "dpone", "tags": ["software"]}],
        "operators": [_integration("operators")],
        "sensors": [_integration("sensors")],
        "triggers": [_integration("triggers")],
        "hooks": [_integration("hooks")],
        "connection-types": [
            {
                "connection-type": "dpone_mssql",
                "hook-class-name": "airflow_provider_dpone.hooks.mssql.DponeMsSqlHook",
                "hook-name": "dpone: SQL Server",
                "conn-fields": {
                    "service_id": _SERVICE_ID,
                    "encrypt": {
                        "label": "Encrypt",
                        "schema": {"type": ["string", "null"], "default": "yes", "enum": ["yes", "strict", "no"]},
                    },
                    "trust_server_certificate": {
                        "label": "Trust the server's certificate",
                        "description": "Only for a development server with a self-signed certificate.",
                        "schema": {**_FLAG, "default": False},
                    },
                    "login_timeout": {
                        "label": "Login timeout",
                        "description": "Seconds to wait for a session. The driver also tries a refused address again.",
                        "schema": _SECONDS,
                    },
                    "control_schema": {
                        "label": "Ledger schema",
                        "description": "Only for connections to the control database.",
                        "schema": {**_TEXT, "default": "dpone_control"},
                    },
                    "extension_schema": {
                        "label": "Ledger extension schema",
                        "description": "Only for connections to the control database.",
                        "schema": {**_TEXT, "default": "dpone_ext"},
                    },
                },
                "ui-field-behaviour": {
                    "hidden-fields": ["extra"],
                    "relabeling": {"schema": "Database", "login": "SQL Server login"},
                    "placeholders": {"port": "1433", "schema": "dpone_control"},
                },
            },
            {
                "connection-type": "dpone_clickhouse",
                "hook-class-name": "airflow_provider_dpone.hooks.clickhouse.DponeClickHouseHook",
                "hook-name": "dpone: ClickHouse",
                "conn-fields": {
                    "service_id": _SERVICE_ID,
                    "secure": {"label": "HTTPS", "schema": {**_FLAG, "default": False}},
                    "verify": {"label": "Verify the certificate", "schema": {**_FLAG, "default": True}},
                    "connect_timeout": _CONNECT_TIMEOUT,
                },
                "ui-field-behaviour": {
                    "hidden-fields": ["extra"],
                    "relabeling": {"schema": "Database", "login": "User"},
                    "placeholders": {"port": "8123"},
                },
            },
            {
                "connection-type": "dpone_postgres",
                "hook-class-name": "airflow_provider_dpone.hooks.postgres.DponePostgresHook",
                "hook-name": "dpone: PostgreSQL",
                "conn-fields": {
                    "source_role": {
                        "label": "Source role",
                        "description": "Only for the issuer: the role that holds what attempts may extract.",
                        "schema": {**_TEXT, "default": "dpone_source_reader"},
                    },
                    "sslmode": {
                        "label": "sslmode",
                        "schema": {
                            "type": ["string", "null"],
                            "default": "prefer",
                            "enum": ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"],
                        },
                    },
                    "connect_timeout": _CONNECT_TIMEOUT,
                },
                "ui-field-behaviour": {
                    "hidden-fields": ["extra"],
                    "relabeling": {"schema": "Database", "login": "Role"},
                    "placeholders": {"port": "5432"},
                },
            },
        ],
        "extra-links": ["airflow_provider_dpone.links.attempt.AttemptLink"],
        "config": {
            "dpone": {
                "description": "Guarded attempts.",
                "options": {
                    "release_root": {
                        "description": (
                            "The folder with the activated releases and the projection of the activation in force, "
                            "readable by every worker."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "/srv/dpone/releases",
                        "default": None,
                    },
                    "work_root": {
                        "description": (
                            "The folder for artifacts of attempts (dbt logs). Default: AIRFLOW_HOME/dpone. With a "
                            "dbt_user, that user must be able to pass through it and all folders above it."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "/srv/dpone/work",
                        "default": None,
                    },
                    "dbt_user": {
                        "description": (
                            "Another OS user for the dbt child: name, name:group or uid:gid. The worker must be able "
                            "to become it (root, or CAP_SETUID, CAP_SETGID, CAP_CHOWN, CAP_KILL, CAP_DAC_OVERRIDE), "
                            "and it must be able to read the Python installation. A number that nobody else uses is "
                            "better than a shared user such as nobody. Default: dbt runs as the task's own user, and "
                            "models then run with that user's access to files."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "60706:60706",
                        "default": None,
                    },
                    "environment": {
                        "description": (
                            "What this installation is, as `environment` of composition.yaml says it. A release of "
                            "another one is refused. Default: releases of any are taken."
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "production",
                        "default": None,
                    },
                    "ledger_conn_id": {
                        "description": "The connection to the control database by which the attempts page reads it.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": None,
                        "default": "dpone_controller",
                    },
                },
            }
        },
    }
