"""What a composition's author writes: `composition.yaml` and one manifest a workload.

The models are closed: an unknown member is refused by name, nothing is stripped. `schemas()` gives the same rules as
JSON schemas, committed under `docs/schemas/`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from airflow_provider_dpone.contracts.errors import ConfigurationError

Identifier = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\\\x00-\x1f]+$")]
Constituent = Literal["native", "standalone"]
WorkloadId = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_.\-]+$")]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Binding(_Closed):
    """An alias for a database. It names no host and no credential: physical identity is read from the server."""

    connector: Literal["mssql", "clickhouse", "postgres"]
    database: Identifier


class PostgresSource(_Closed):
    """One whole table: the only extraction of this cell."""

    binding: Identifier
    schema_: Identifier = Field(alias="schema")
    table: Identifier


class MssqlSink(_Closed):
    binding: Identifier
    schema_: Identifier = Field(alias="schema")
    table: Identifier
    mode: Literal["full_refresh"]
    guarantee: Literal["target_atomic"]


class PostgresToMssql(_Closed):
    """PostgreSQL table to SQL Server table, replaced in one target transaction."""

    schema_: Literal["dpone.workload.v1"] = Field(alias="schema")
    workload_id: WorkloadId
    constituent_id: Constituent
    cell: Literal["postgres_mssql_full_refresh_v1"]
    dag_id: WorkloadId
    source: PostgresSource
    sink: MssqlSink


class MssqlSource(_Closed):
    """One whole table. `max_source_bytes` bounds all tries of the activation together."""

    binding: Identifier
    schema_: Identifier = Field(alias="schema")
    table: Identifier
    max_source_bytes: Annotated[int, Field(gt=0, lt=2**63)]


class ClickHouseSink(_Closed):
    binding: Identifier
    table: Identifier
    mode: Literal["full_refresh"]


class MssqlToClickHouse(_Closed):
    """SQL Server table to ClickHouse table, published by one EXCHANGE."""

    schema_: Literal["dpone.workload.v1"] = Field(alias="schema")
    workload_id: WorkloadId
    constituent_id: Constituent
    cell: Literal["mssql_clickhouse_full_refresh_v1"]
    dag_id: WorkloadId
    source: MssqlSource
    sink: ClickHouseSink


class DbtProject(_Closed):
    """A dbt project folder beside the composition, and the database that it builds in.

    `content_check` is how the declared tables are compared before, after and at the end of a build. `digest` hashes each
    row of each table on the server, three times an attempt; `count` counts them, for tables for which that is too
    much work: rows that change in place are then not seen, and a relation with the same count is named as unchecked.
    """

    binding: Identifier
    project: Annotated[str, Field(pattern=r"^[A-Za-z0-9_\-][A-Za-z0-9_.\-]*$")]
    default_schema: Identifier
    threads: Annotated[int, Field(ge=1, le=32)] = 1
    content_check: Literal["digest", "count"] = "digest"


class NativeDbt(_Closed):
    """One `dbt build` of a whole project."""

    schema_: Literal["dpone.workload.v1"] = Field(alias="schema")
    workload_id: WorkloadId
    constituent_id: Constituent
    cell: Literal["sqlserver_dbt_v1"]
    dag_id: WorkloadId
    dbt: DbtProject


Workload = Annotated[PostgresToMssql | MssqlToClickHouse | NativeDbt, Field(discriminator="cell")]
WORKLOAD: TypeAdapter[PostgresToMssql | MssqlToClickHouse | NativeDbt] = TypeAdapter(Workload)


class Composition(_Closed):
    """The parent: its bindings, and the manifests of its workloads."""

    schema_: Literal["dpone.composition.v1"] = Field(alias="schema")
    name: WorkloadId
    environment: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[a-z0-9_\-]+$")]
    bindings: dict[Identifier, Binding]
    workloads: Annotated[tuple[str, ...], Field(min_length=1)]


def read_composition(text: str, where: str) -> Composition:
    """Parse `composition.yaml`. `where` names the file in errors."""
    composition: Composition = _validated(Composition.model_validate, text, where)
    return composition


def read_workload(text: str, where: str) -> PostgresToMssql | MssqlToClickHouse | NativeDbt:
    """Parse one workload manifest. A cell outside the closed matrix is refused."""
    workload: PostgresToMssql | MssqlToClickHouse | NativeDbt = _validated(WORKLOAD.validate_python, text, where)
    return workload


def schemas() -> dict[str, dict[str, Any]]:
    """The JSON schemas of both documents, by file name."""
    return {
        "composition.schema.json": Composition.model_json_schema(by_alias=True),
        "workload.schema.json": WORKLOAD.json_schema(by_alias=True),
    }


def read_text(path: Path) -> str:
    """A manifest's text, as UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError("manifest_unreadable", happened=f"{path.name} could not be read: {error}.") from error


def _validated(validate: Any, text: str, where: str) -> Any:
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigurationError("manifest_not_yaml", happened=f"{where} is not YAML: {error}.") from error
    try:
        return validate(document)
    except ValidationError as error:
        reasons = "; ".join(
            f"{'.'.join(str(part) for part in item['loc']) or 'document'}: {item['msg']}" for item in error.errors()
        )
        raise ConfigurationError("manifest_refused", happened=f"{where} is refused: {reasons}.") from error
