"""What a composition's author writes: `composition.yaml` and one manifest a workload.

The models are closed: an unknown member is refused by name, nothing is stripped. `schemas()` gives the same rules as
JSON schemas, committed under `docs/schemas/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StrictBool,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from airflow_provider_dpone.contracts.errors import ConfigurationError

#: The longest manifest, in characters.
MANIFEST_LIMIT = 1024 * 1024
#: How much of a refused manifest an error repeats: so many members, and so many characters of each.
_REASONS, _SHOWN = 20, 200
_MERGE = "tag:yaml.org,2002:merge"
#: What the loader raises beside its own errors for a value that is none of its type: `2026-13-45`, `!!int x`, `0x_`.
_NO_VALUE = (ValueError, TypeError, LookupError, AttributeError, OverflowError)

Identifier = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\\\x00-\x1f]+$")]
Constituent = Literal["native", "standalone"]
WorkloadId = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_.\-]+$")]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


Option = StrictStr | StrictInt | StrictBool | None


def _pairs(given: Any) -> tuple[tuple[Any, Any], ...]:
    if given == ():
        return ()
    if not isinstance(given, Mapping):
        raise ValueError("options are a mapping")
    for name, value in given.items():
        if not (isinstance(name, str) and (value is None or type(value) in (str, int, bool))):
            raise ValueError(
                f"the option {str(name)[:_SHOWN]!r} is neither a text, a whole number, true, false nor null"
            )
    return tuple(sorted(given.items()))


#: Further options, as their author or a generator wrote them: a mapping, kept as pairs that cannot be changed.
Options = Annotated[
    tuple[tuple[Identifier, Option], ...],
    BeforeValidator(_pairs),
    PlainSerializer(dict, return_type=dict[str, Option]),
    WithJsonSchema(TypeAdapter(dict[Identifier, Option]).json_schema()),
    Field(json_schema_extra={"default": {}}),
]


class _End(_Closed):
    """A source or a sink."""

    binding: Identifier
    options: Options = ()


class _Workload(_Closed):
    """What every workload may say beside its cell. All of it is kept and pinned; what has an effect that no route here
    carries out is refused before an execution. `gitops` says where the declaration comes from, and has none.
    """

    schema_: Literal["dpone.workload.v1"] = Field(alias="schema")
    workload_id: WorkloadId
    dag_id: WorkloadId
    runtime: Options = ()
    quality: Options = ()
    gitops: Options = ()


class Binding(_Closed):
    """An alias for a database. It names no host and no credential: physical identity is read from the server."""

    connector: Literal["mssql", "clickhouse", "postgres"]
    database: Identifier


class PostgresSource(_End):
    """One whole table: the only extraction of this cell."""

    schema_: Identifier = Field(alias="schema")
    table: Identifier


class MssqlSink(_End):
    schema_: Identifier = Field(alias="schema")
    table: Identifier
    mode: Literal["full_refresh"]
    guarantee: Literal["target_atomic"]


class PostgresToMssql(_Workload):
    """PostgreSQL table to SQL Server table, replaced in one target transaction."""

    constituent_id: Constituent
    cell: Literal["postgres_mssql_full_refresh_v1"]
    source: PostgresSource
    sink: MssqlSink


class MssqlSource(_End):
    """One whole table. `max_source_bytes` bounds all tries of the activation together."""

    schema_: Identifier = Field(alias="schema")
    table: Identifier
    max_source_bytes: Annotated[int, Field(strict=True, gt=0, lt=2**63)]


class ClickHouseSink(_End):
    table: Identifier
    mode: Literal["full_refresh"]


class MssqlToClickHouse(_Workload):
    """SQL Server table to ClickHouse table, published by one EXCHANGE."""

    constituent_id: Constituent
    cell: Literal["mssql_clickhouse_full_refresh_v1"]
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
    threads: Annotated[int, Field(strict=True, ge=1, le=32)] = 1
    content_check: Literal["digest", "count"] = "digest"


class NativeDbt(_Workload):
    """One `dbt build` of a whole project."""

    constituent_id: Constituent
    cell: Literal["sqlserver_dbt_v1"]
    dbt: DbtProject


class ArchivedSource(_End):
    """A table, or a SQL file of the release whose path is declared here."""

    schema_: Identifier | None = Field(alias="schema", default=None)
    table: Identifier | None = None
    sql: Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\\\x00-\x1f]+\.sql$")] | None = None

    @model_validator(mode="after")
    def _one_extraction(self) -> Self:
        if (self.table is None) == (self.sql is None):
            raise ValueError("a source is either a table or a sql file")
        return self


class ArchivedSink(_End):
    schema_: Identifier | None = Field(alias="schema", default=None)
    table: Identifier
    mode: Literal["full_refresh", "append", "incremental"]
    guarantee: Literal["none", "target_atomic"] = "none"


class ArchivedTransfer(_Workload):
    """An ordinary transfer as a release may keep it: wider than what is executed.

    It is built, pinned, verified and shown like any other. `plan_composition_execution` says why it is not executed.
    """

    constituent_id: Literal["standalone"]
    cell: Literal["transfer_archive_v1"]
    source: ArchivedSource
    sink: ArchivedSink


WorkloadManifest = PostgresToMssql | MssqlToClickHouse | NativeDbt | ArchivedTransfer
WORKLOAD: TypeAdapter[WorkloadManifest] = TypeAdapter(Annotated[WorkloadManifest, Field(discriminator="cell")])


#: Five cron fields, or one of Airflow's presets.
_SCHEDULE = r"^(@(once|continuous|hourly|daily|weekly|monthly|quarterly|yearly|annually)|\S{1,60}( \S{1,60}){4})$"


class DagOptions(_Closed):
    """How one constituent runs in Airflow. Without a schedule it runs by explicit triggers only.

    `steps`: each workload as a group of four tasks (work, close_gate, prove_quiescence, finalize), or as one task.
    `mapped`: the workloads, all of one cell, as one task of this id that is mapped over them in their order. `in_order`
    then means one at a time: one that fails does not keep the others from running, and assets are not updated.
    `retry_delay_seconds`: Airflow's default when absent. `overlap_poll_seconds`: how often a try that waits for data
    that another attempt holds asks again; the operators' default when absent.
    """

    schedule: Annotated[str, Field(pattern=_SCHEDULE)] | None = None
    retries: Annotated[int, Field(strict=True, ge=0, le=100)] = 1
    retry_delay_seconds: Annotated[int, Field(strict=True, ge=0, le=86400)] | None = None
    overlap_poll_seconds: Annotated[int, Field(strict=True, ge=1, le=3600)] | None = None
    tasks: Literal["in_order", "at_once"] = "in_order"
    steps: Literal["task_group", "one_task"] = "task_group"
    mapped: WorkloadId | None = None

    @model_validator(mode="after")
    def _mapped_in_one_task(self) -> Self:
        if self.mapped is not None and self.steps != "one_task":
            raise ValueError("workloads of a mapped task are one task each: say `steps: one_task`")
        return self


class ParentDag(_Closed):
    """The DAG that triggers constituents one after the other and waits for each. The order is the author's."""

    dag_id: WorkloadId
    order: Annotated[tuple[WorkloadId, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        if len(set(self.order)) != len(self.order):
            raise ValueError("a DAG stands twice in the order of the parent")
        return self


class Composition(_Closed):
    """The parent: its bindings, the manifests of its workloads, and how their DAGs (by `dag_id`) run."""

    schema_: Literal["dpone.composition.v1"] = Field(alias="schema")
    name: WorkloadId
    environment: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[a-z0-9_\-]+$")]
    bindings: dict[Identifier, Binding]
    workloads: Annotated[tuple[str, ...], Field(min_length=1)]
    dags: dict[WorkloadId, DagOptions] = {}
    parent: ParentDag | None = None


def read_composition(text: str, where: str) -> Composition:
    """Parse `composition.yaml`. `where` names the file in errors."""
    composition: Composition = _validated(Composition.model_validate, text, where)
    return composition


def read_workload(text: str, where: str) -> WorkloadManifest:
    """Parse one workload manifest. A cell that is not known is refused."""
    workload: WorkloadManifest = _validated(WORKLOAD.validate_python, text, where)
    return workload


def schemas() -> dict[str, dict[str, Any]]:
    """The JSON schemas of both documents, by file name."""
    return {
        "composition.schema.json": Composition.model_json_schema(by_alias=True),
        "workload.schema.json": WORKLOAD.json_schema(by_alias=True),
    }


class _OnceEach(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # the C loader is optional
    """YAML in which no key stands twice in one mapping, by itself or by a merge: one would win without a word."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if key.tag == _MERGE:
                raise yaml.YAMLError("a merge key (<<) is not allowed")
            if isinstance(key.value, str) and key.value in seen:
                raise yaml.YAMLError(f"the key {key.value[:_SHOWN]!r} stands twice in one mapping")
            if isinstance(key.value, str):
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def _validated(validate: Any, text: str, where: str) -> Any:
    if len(text) > MANIFEST_LIMIT:
        raise ConfigurationError(
            "manifest_size", happened=f"{where} has {len(text)} characters; a manifest has at most {MANIFEST_LIMIT}."
        )
    try:
        # A few aliases of aliases would make a document that no memory holds.
        if "*" in text and any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, _OnceEach)):
            raise yaml.YAMLError("an alias (*name) is not allowed")
        document = yaml.load(text, _OnceEach)
    except (yaml.YAMLError, RecursionError, *_NO_VALUE) as error:
        raise ConfigurationError("manifest_not_yaml", happened=f"{where} is not YAML: {error}.") from error
    try:
        return validate(document)
    except ValidationError as error:
        found = error.errors()
        reasons = [
            f"{'.'.join(str(part) for part in item['loc'])[:_SHOWN] or 'document'}: {item['msg'][:_SHOWN]}"
            for item in found[:_REASONS]
        ]
        if len(found) > _REASONS:
            reasons.append(f"and {len(found) - _REASONS} more")
        raise ConfigurationError("manifest_refused", happened=f"{where} is refused: {'; '.join(reasons)}.") from error
