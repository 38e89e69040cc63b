"""A good seed plan, and the seal of what it seeds."""

from __future__ import annotations

from airflow_provider_dpone.contracts.nonproduction.seal import SourceGeneration, SourceObservation, SourceSealRecord
from airflow_provider_dpone.contracts.nonproduction.seed import SeedColumn, SeedPlan
from tests.support import ledger_records as make

PLAN = SeedPlan(
    fixture_plan_sha256=make.sha("fixture plan"),
    work_item_sha256=make.sha("work item"),
    object_id="source",
    qualified_name=("db", "fixtures", "planes"),
    columns=(
        SeedColumn(name="id", type="integer", nullable=False),
        SeedColumn(name="amount", type="numeric(5,2)", nullable=True),
    ),
    key=("id",),
    rows=(("1", "1.50"), ("2", None)),
)
SEAL = SourceSealRecord(
    seed_operation_sha256=make.sha("operation"),
    seed_plan_sha256=PLAN.sha256,
    fixture_plan_sha256=PLAN.fixture_plan_sha256,
    object_id="source",
    closed_gates_sha256=make.sha("closed"),
    quiescence_sha256=make.sha("quiet"),
    observation=SourceObservation(
        service_id="0f8fad5b-d9cd-469f-a165-70867728950e",
        qualified_name=PLAN.qualified_name,
        schema_sha256=PLAN.schema_sha256,
        content_sha256=PLAN.content_sha256,
        rows=2,
        generation=SourceGeneration(database_oid=5, table_oid=7, timeline=1, seeded_by=make.sha("operation")),
    ),
)
