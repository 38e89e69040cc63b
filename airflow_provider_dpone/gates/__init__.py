"""Writer closure, one module an engine. Import the engine's module; this package loads none of them."""

from airflow_provider_dpone.gates.interface import (
    ClickHouseIngestGrant,
    ClickHousePublishGrant,
    Credential,
    Grant,
    MsSqlWriterGrant,
    PostgresExtractGrant,
    PostgresSeedGrant,
    WriterGate,
)

__all__ = [
    "ClickHouseIngestGrant",
    "ClickHousePublishGrant",
    "Credential",
    "Grant",
    "MsSqlWriterGrant",
    "PostgresExtractGrant",
    "PostgresSeedGrant",
    "WriterGate",
]
