"""Which databases are one, and which names in them: decided once a domain, refused before anything is reserved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_dpone.composition import projection, release
from airflow_provider_dpone.composition.physical import folds_names
from airflow_provider_dpone.contracts.activation import EXECUTION_CELLS
from airflow_provider_dpone.contracts.errors import AdmissionRefused
from tests.support.compositions import COMPOSITION, ORDINARY, Servers, Store, activation, write_source

TWO = COMPOSITION.replace("WORKLOAD", "planes.yaml, more.yaml").replace(
    "  ch:", "  dw2: {connector: mssql, database: dw2}\n  ch:"
)
MORE = ORDINARY.replace("workload_id: planes", "workload_id: more")


def built(tmp_path: Path, more: str) -> Path:
    release.build(write_source(tmp_path / "source", composition=TWO, more=more), tmp_path / "release")
    return tmp_path / "release"


@pytest.mark.parametrize(
    ("more", "same"),
    [
        (MORE.replace("binding: dw", "binding: dw2"), {"dw2": "dw"}),
        (MORE.replace("binding: dw", "binding: dw2").replace("table: planes, mode", "table: PLANES, mode"), {"dw2": "dw"}),
        (MORE.replace("table: planes, mode", "table: 'planes  ', mode"), {}),
        (MORE.replace("binding: dw", "binding: dw2").replace("schema: raw", "schema: 'RAW '"), {"dw2": "dw"}),
    ],
    ids=["two aliases", "two aliases and case", "trailing blanks", "schema"],
)  # fmt: skip
def test_two_writes_of_one_relation_are_refused_and_named(tmp_path: Path, more: str, same: dict[str, str]) -> None:
    store = Store()
    with pytest.raises(AdmissionRefused, match="write_collision") as refused:
        activation(tmp_path / "root", store, Servers(same=same)).activate(built(tmp_path, more))
    assert "workload more" in str(refused.value) and "workload planes" in str(refused.value)
    assert store.states == {} and projection.current_activation_id(tmp_path / "root") is None
    assert activation(tmp_path / "root", store).status().unfinished == ()


def test_all_writes_of_a_database_are_compared_at_once(tmp_path: Path) -> None:
    """Answers of two comparisons could not be compared with each other."""
    servers = Servers(same={"dw2": "dw"})
    more = MORE.replace("binding: dw", "binding: dw2").replace("table: planes, mode", "table: other, mode")
    active = activation(tmp_path / "root", Store(), servers).activate(built(tmp_path, more))
    assert sorted(servers.compared) == [("ch", 1), ("dw", 2)]
    assert len(active.request.resources) == 2, "two aliases of one database are one resource"


def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    store = Store()
    with pytest.raises(AdmissionRefused, match="write_object") as refused:
        activation(tmp_path / "root", store, Servers(objects={"planes": "SN"})).activate(
            built(tmp_path, MORE.replace("table: planes, mode", "table: b, mode"))
        )
    assert "type SN" in str(refused.value) and store.states == {}


@pytest.mark.parametrize("cell", EXECUTION_CELLS[1:])
def test_a_cell_that_is_not_installed_refuses_the_whole_parent(tmp_path: Path, cell: str) -> None:
    release.build(write_source(tmp_path / "source"), tmp_path / "release")
    store = Store()
    servers = Servers(cells=frozenset(EXECUTION_CELLS) - {cell})
    with pytest.raises(AdmissionRefused, match="execution_cells") as refused:
        activation(tmp_path / "root", store, servers).activate(tmp_path / "release")
    assert cell in str(refused.value) and store.states == {} and not (tmp_path / "root").exists()


def test_another_database_behind_an_alias_is_drift_and_a_changed_table_is_none(tmp_path: Path) -> None:
    """Sources count as well: their alias leads somewhere, too."""
    release.build(write_source(tmp_path / "source"), tmp_path / "release")
    root, store = tmp_path / "root", Store()
    servers = Servers()
    prepared = activation(root, store, servers).prepare(tmp_path / "release")
    for changed in (replace(servers, incarnation=2), replace(servers, same={"ops": "elsewhere"})):
        with pytest.raises(AdmissionRefused, match="physical_binding_drift"):
            activation(root, store, changed).reconcile(prepared.activation_id)
    assert projection.current_activation_id(root) is None
    rebuilt = replace(servers, objects={"planes": "V"})
    active = activation(root, store, rebuilt).reconcile(prepared.activation_id)
    assert active.request == prepared.request and active.state == "ACTIVE"


@pytest.mark.parametrize(
    ("collation", "taken"),
    [
        ("SQL_Latin1_General_CP1_CI_AS", True),
        ("Latin1_General_100_CI_AI_SC_UTF8", True),
        ("Latin1_General_100_CS_AS", False),
        ("Latin1_General_100_BIN2", False),
        ("Turkish_100_CI_AS", False),
    ],
)
def test_a_collation_under_which_case_tells_relations_apart_is_not_taken(collation: str, taken: bool) -> None:
    """`I` and `i` are two letters in Turkish, whatever its name says of case."""
    assert folds_names(collation) is taken


@pytest.mark.parametrize(
    ("name", "taken"), [("n" * 128, True), ("\N{AIRPLANE}" * 128, True), ("\N{ROCKET}" * 65, False)]
)
def test_a_name_is_as_long_as_sql_server_counts_it(tmp_path: Path, name: str, taken: bool) -> None:
    """A longer one would be cut while it is compared, and then be another relation than the one that is written."""
    release_folder = built(tmp_path, MORE.replace("table: planes, mode", f"table: '{name}', mode"))
    store = Store()
    if taken:
        activation(tmp_path / "root", store).activate(release_folder)
    else:
        with pytest.raises(AdmissionRefused, match="name_length"):
            activation(tmp_path / "root", store).activate(release_folder)
    assert bool(store.states) is taken
