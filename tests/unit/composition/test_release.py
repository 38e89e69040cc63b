"""A release is what it was built from, to the byte, or it is refused by name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from airflow_provider_dpone.composition import manifest, release
from airflow_provider_dpone.contracts.errors import ConfigurationError

SOURCE = Path(__file__).resolve().parents[3] / "examples" / "flights"


@pytest.fixture
def built(flights_release: Path) -> Path:
    return flights_release


def test_reading_gives_the_same_release_again(built: Path) -> None:
    first, second = release.read(built), release.read(built)

    assert first.release_id == second.release_id
    assert [workload.workload_id for workload in first.workloads] == [
        "airlines",
        "airports",
        "planes",
        "publish_daily_delays",
        "publish_flights",
        "warehouse",
    ]


def test_building_twice_gives_the_same_identity(built: Path, tmp_path: Path) -> None:
    assert release.build(SOURCE, tmp_path / "again").release_id == release.read(built).release_id


def test_a_dbt_workload_declares_targets_and_helper_relations(built: Path) -> None:
    relations = release.read(built).workload("warehouse").relations

    names = {(relation.schema, relation.name): relation for relation in relations}
    assert names["marts", "fct_flights"].role == "target"
    assert names["marts", "fct_flights__dbt_tmp"].role == "intermediate"
    assert names["snapshots", "airlines_history"].materialized == "snapshot"
    assert names["marts", "fct_flights"].rebuildable


def test_another_release_than_the_expected_one_is_refused(built: Path) -> None:
    with pytest.raises(ConfigurationError, match="release_id"):
        release.read(built, expected_release_id="sha256:" + "0" * 64)


def test_an_existing_destination_is_never_changed(built: Path) -> None:
    with pytest.raises(ConfigurationError, match="release_exists"):
        release.build(SOURCE, built)


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    source = Path(shutil.copytree(SOURCE, tmp_path / "source"))
    (source / "dbt" / "models" / "marts" / "broken.sql").write_text("select * from {{ ref('nowhere') }}\n")

    with pytest.raises(ConfigurationError, match="dbt_parse"):
        release.build(source, tmp_path / "release")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("cell: postgres_mssql_append_v1", "cell"),
        ("surprise: 1", "surprise"),
        ("dag_id: 'a\\b'", "dag_id"),
    ],
)
def test_an_unknown_cell_member_or_identity_is_refused(change: str, named: str) -> None:
    lines = (SOURCE / "workloads" / "planes.yaml").read_text().splitlines()
    name = change.split(":")[0]
    text = "\n".join([line for line in lines if not line.startswith(name)] + [change])

    with pytest.raises(ConfigurationError, match=named):
        manifest.read_workload(text, "planes.yaml")


def test_a_publication_without_a_byte_budget_is_refused() -> None:
    text = (SOURCE / "workloads" / "publish_flights.yaml").read_text()

    with pytest.raises(ConfigurationError, match="max_source_bytes"):
        manifest.read_workload(text.replace("max_source_bytes: 536870912", "max_source_bytes: 0"), "publish")
