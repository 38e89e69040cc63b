"""The files that name the activation in force: cut, changed, unwritable, written twice, and an activation half sent."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dpone.composition import projection, release
from airflow_provider_dpone.contracts.activation import ActivationRequest
from airflow_provider_dpone.contracts.errors import (
    ActivationUnknown,
    AdmissionRefused,
    ConfigurationError,
    GuardError,
    Overlap,
    ParentNotActive,
)
from airflow_provider_dpone.ledger import Activation
from tests.support.compositions import COMPOSITION, ORDINARY, Store, activation, write_source


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path / "source")


@pytest.fixture
def built(source: Path, tmp_path: Path) -> Path:
    release.build(source, tmp_path / "release")
    return tmp_path / "release"


def test_an_activation_is_what_tasks_load(built: Path, tmp_path: Path) -> None:
    active = activation(tmp_path / "root", Store()).activate(built)
    workload = projection.load_workload(tmp_path / "root", "planes")
    assert workload.activation_id == active.activation_id
    assert workload.guard_epochs == active.epochs_of("planes")
    assert set(active.guard_epochs) == {
        pair for each in ("planes", "delays") for pair in projection.load_workload(tmp_path / "root", each).guard_epochs
    }


def broken(text: str) -> Iterator[tuple[str, str]]:
    document = json.loads(text)
    yield "empty", ""
    yield "cut", text[: len(text) // 2]
    yield "cut by one", text[:-1]
    yield "list", "[]"
    yield "zeros", "\0" * len(text)
    for name in document:
        yield f"without {name}", json.dumps({k: v for k, v in document.items() if k != name})
        yield f"{name} is null", json.dumps({**document, name: None})
        yield f"{name} is text", json.dumps({**document, name: "x"})
    if "guard_epochs" in document:
        for epochs in ([1], [["g"]], [["g", "1"]], [["g", None]], {"g": 1}):
            yield f"epochs {epochs}", json.dumps({**document, "guard_epochs": epochs})
    else:
        for name in document["request"]:
            yield (
                f"request without {name}",
                json.dumps({**document, "request": {k: v for k, v in document["request"].items() if k != name}}),
            )
            yield f"request {name} is 1", json.dumps({**document, "request": {**document["request"], name: 1}})


@pytest.mark.parametrize("which", ["current", "recorded"])
def test_a_damaged_file_is_refused_by_name(built: Path, tmp_path: Path, which: str) -> None:
    root = tmp_path / "root"
    active = activation(root, Store()).activate(built)
    path = root / "current.json" if which == "current" else root / "activations" / f"{active.activation_id}.json"
    text = path.read_text()
    for what, damaged in broken(text):
        path.write_text(damaged)
        with pytest.raises(GuardError):
            projection.load_workload(root, "planes")
            pytest.fail(f"accepted: {what}")
    path.write_text(text)
    assert projection.load_workload(root, "planes").workload_id == "planes"


def test_a_sealed_release_that_changed_is_refused_and_the_authors_one_is_nobodys_business(
    built: Path, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    activation(root, Store()).activate(built)
    shutil.rmtree(built)
    assert projection.load_workload(root, "planes").workload_id == "planes"
    (sealed,) = root.glob("deployments/*/release")
    for path in ("planes.yaml", "release.json", "composition.yaml"):
        kept = (sealed / path).read_bytes()
        for change in (kept + b"\n", b"{}", b"", kept.replace(b"planes", b"airlines")):
            (sealed / path).write_bytes(change)
            with pytest.raises(ConfigurationError):
                projection.load_workload(root, "planes")
        (sealed / path).write_bytes(kept)
    (sealed / "more.yaml").write_text(ORDINARY)
    with pytest.raises(ConfigurationError):
        projection.load_workload(root, "planes")
    shutil.rmtree(sealed)
    with pytest.raises(ConfigurationError):
        projection.load_workload(root, "planes")


@pytest.mark.parametrize("step", ["prepare", "activate"])
@pytest.mark.parametrize("sent", [True, False])
def test_a_lost_acknowledgement_is_resumed_under_the_same_id(
    built: Path, tmp_path: Path, step: str, sent: bool
) -> None:
    root, store = tmp_path / "root", Store()
    store.lost, store.sent = {step}, sent
    with pytest.raises(ActivationUnknown) as refused:
        activation(root, store).activate(built)
    (left,) = activation(root, store).status().unfinished
    assert left.command == f"dponectl composition reconcile {left.activation_id}"
    assert left.command in str(refused.value) and refused.value.details["command"] == left.command
    assert refused.value.state_may_have_changed and refused.value.recovery_required
    store.lost = set()
    assert activation(root, store).reconcile(left.activation_id).state == "ACTIVE"
    assert projection.load_workload(root, "planes").activation_id == left.activation_id
    assert activation(root, store).status().unfinished == ()


def test_an_activation_that_is_over_does_not_become_the_current_one(built: Path, tmp_path: Path) -> None:
    root, store = tmp_path / "root", Store()
    first = activation(root, store).activate(built)
    store.states[first.activation_id] = "RETIRED"
    second = activation(root, store).activate(built)
    with pytest.raises(ParentNotActive):
        activation(root, store).reconcile(first.activation_id)
    assert projection.current_activation_id(root) == second.activation_id


def test_a_refused_activation_leaves_the_current_one(built: Path, tmp_path: Path) -> None:
    root, store = tmp_path / "root", Store()
    first = activation(root, store).activate(built)
    with pytest.raises(Overlap):
        activation(root, store).activate(built)
    assert projection.current_activation_id(root) == first.activation_id


@pytest.mark.parametrize(
    "activation_id", ["", "nonsense", "../current", str(uuid.UUID(int=1)).upper() + "A", "x" * 5000]
)
def test_a_wrong_activation_id_is_refused(tmp_path: Path, activation_id: str) -> None:
    with pytest.raises(ConfigurationError):
        activation(tmp_path, Store()).reconcile(activation_id)


def test_many_writers_at_once_leave_one_whole_file(built: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    request = activation(root, Store()).activate(built).request
    failures: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for _ in range(20):
                projection.switch(root, request, (("g" * 200 * (number + 1), number + 1),))
                projection.current_activation_id(root)
        except BaseException as err:
            failures.append(err)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(path.name for path in root.glob("current*")) == ["current.json"]


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """No file can grow beyond a few bytes: what a full disk looks like to a writer, for root as well."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextlib.contextmanager
def no_folder(root: Path) -> Iterator[None]:
    """Nothing can be made in the root."""
    (root / "activations").rename(root / "kept")
    (root / "activations").write_text("")
    yield
    (root / "activations").unlink()
    (root / "kept").rename(root / "activations")


@pytest.mark.parametrize("trouble", ["full", "no_folder"])
def test_a_release_root_that_cannot_be_written(built: Path, tmp_path: Path, trouble: str) -> None:
    root, store = tmp_path / "root", Store()
    request = activation(root, store).activate(built).request
    before = (root / "current.json").read_bytes()
    broken = full_disk() if trouble == "full" else no_folder(root)
    with broken, pytest.raises(ConfigurationError, match="projection_not_written"):
        projection.record(root, request, built)
    assert (root / "current.json").read_bytes() == before
    assert projection.load_workload(root, "planes").activation_id == request.activation_id
    assert list(root.rglob("*.new")) == []


def test_a_disk_that_fills_between_the_steps_is_resumed(built: Path, tmp_path: Path) -> None:
    root, store = tmp_path / "root", Store()
    first = activation(root, store).activate(built)
    store.states[first.activation_id] = "RETIRED"
    prepare, full = store.prepare, contextlib.ExitStack()

    def then_full(request: ActivationRequest) -> Activation:
        full.enter_context(full_disk())
        return prepare(request)

    store.prepare = then_full  # type: ignore[method-assign]  # for this one call
    with full, pytest.raises(ActivationUnknown, match="reconcile"):
        activation(root, store).activate(built)
    assert projection.current_activation_id(root) == first.activation_id
    store.prepare = prepare  # type: ignore[method-assign]  # as it was
    (second,) = set(store.states) - {first.activation_id}
    assert activation(root, store).reconcile(second).state == "ACTIVE"
    assert projection.current_activation_id(root) == second


@pytest.mark.parametrize("trouble", ["inside", "no_parent", "exists", "file_in_the_way"])
def test_a_release_is_never_built_where_it_cannot_be(source: Path, tmp_path: Path, trouble: str) -> None:
    places = {
        "inside": source / "releases" / "1",
        "no_parent": tmp_path / "nowhere" / "1",
        "exists": source,
        "file_in_the_way": source / "planes.yaml" / "1",
    }
    before = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    with pytest.raises(ConfigurationError):
        release.build(source, places[trouble])
    assert {path: path.read_bytes() for path in source.rglob("*") if path.is_file()} == before


def test_building_touches_nothing_beside_the_new_release(source: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "r.building"
    theirs.mkdir()
    (theirs / "precious").write_text("x")
    release.build(source, tmp_path / "r")
    assert (theirs / "precious").exists()
    assert os.stat(tmp_path / "r").st_mode & 0o777 == os.stat(source).st_mode & 0o777


@pytest.mark.parametrize("path", ["../outside.yaml", "/outside.yaml", "sub/../../outside.yaml"])
def test_a_workload_outside_of_its_folder_is_refused(source: Path, tmp_path: Path, path: str) -> None:
    (tmp_path / "outside.yaml").write_text(ORDINARY)
    (source / "composition.yaml").write_text(COMPOSITION.replace("WORKLOAD", path))
    with pytest.raises(ConfigurationError, match="workload_path"):
        release.build(source, tmp_path / "r")


def test_a_release_file_of_any_shape_is_refused(built: Path) -> None:
    path = built / "release.json"
    document: dict[str, Any] = json.loads(path.read_text())
    for member in ("files", "workloads"):
        for wrong in (None, 1, "x", [], {}, [1], [{}]):
            path.write_text(json.dumps({**document, member: wrong}))
            with pytest.raises(ConfigurationError):
                release.read(built)


def test_a_composition_without_both_constituents_is_refused_when_it_is_built(source: Path, tmp_path: Path) -> None:
    (source / "composition.yaml").write_text(COMPOSITION.replace("native.yaml, WORKLOAD", "planes.yaml"))
    with pytest.raises(ConfigurationError, match="constituent_id native"):
        release.build(source, tmp_path / "r")


def test_two_writers_of_one_table_are_named_when_they_are_built(source: Path, tmp_path: Path) -> None:
    (source / "again.yaml").write_text(
        ORDINARY.replace("planes", "again").replace("raw, table: again", "RAW, table: Planes")
    )
    (source / "composition.yaml").write_text(COMPOSITION.replace("WORKLOAD", "planes.yaml, again.yaml"))
    with pytest.raises(ConfigurationError, match="again and planes both write"):
        release.build(source, tmp_path / "r")


def test_an_activation_that_was_only_prepared_is_retired_without_ever_being_active(built: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    store = Store()
    store.lost, store.sent = {"activate"}, False
    with pytest.raises(GuardError):
        activation(root, store).activate(built)
    ((prepared, state),) = store.states.items()
    assert state == "PREPARED"
    store.lost = {"activate"}
    assert activation(root, store).retire(prepared).state == "RETIRED"
    store.lost = set()
    assert activation(root, store).activate(built).state == "ACTIVE"


def test_a_shut_door_leaves_the_current_activation_what_it_is(built: Path, tmp_path: Path) -> None:
    """The ledger refuses prepare; nothing is switched by a new activation or by one that is resumed."""
    root = tmp_path / "root"
    store = Store()
    first = activation(root, store).activate(built)
    store.states[first.activation_id] = "RETIRED"

    def shut(request: ActivationRequest) -> Activation:
        raise AdmissionRefused("gate_profile_absent")

    store.prepare = shut  # type: ignore[method-assign]  # as a ledger without a receipt
    for _ in range(2):
        with pytest.raises(AdmissionRefused, match="gate_profile_absent"):
            activation(root, store).activate(built)
    assert activation(root, store).status().unfinished == (), "nothing is reserved, so nothing is left to be ended"
    assert projection.current_activation_id(root) == first.activation_id
    assert set(store.states) == {first.activation_id}


def test_a_shut_door_keeps_the_note_of_what_was_prepared_before(built: Path, tmp_path: Path) -> None:
    root, store = tmp_path / "root", Store()
    prepared = activation(root, store).prepare(built)

    def shut(request: ActivationRequest) -> Activation:
        raise AdmissionRefused("gate_profile_absent")

    opened, store.prepare = store.prepare, shut  # type: ignore[method-assign]  # as a ledger without a receipt
    with pytest.raises(AdmissionRefused, match="gate_profile_absent"):
        activation(root, store).reconcile(prepared.activation_id)
    assert projection.current_activation_id(root) is None
    (left,) = activation(root, store).status().unfinished
    assert (left.activation_id, left.state) == (prepared.activation_id, "PREPARED")
    store.prepare = opened  # type: ignore[method-assign]  # as it was
    assert activation(root, store).reconcile(prepared.activation_id).state == "ACTIVE"


def test_a_door_that_shuts_after_the_drain_is_named_with_the_command_that_goes_on(built: Path, tmp_path: Path) -> None:
    root, store = tmp_path / "root", Store()
    old = activation(root, store).activate(built)

    def shut(request: ActivationRequest) -> Activation:
        raise AdmissionRefused("gate_profile_absent", check="run the profile.")

    opened, store.prepare = store.prepare, shut  # type: ignore[method-assign]  # as a ledger without a receipt
    with pytest.raises(AdmissionRefused, match="gate_profile_absent") as refused:
        activation(root, store).hand_over(built, patience=0)
    assert store.states == {old.activation_id: "RETIRED"}
    (left,) = activation(root, store).status().unfinished
    assert refused.value.recovery_required and refused.value.details["command"] == left.command
    assert left.command in str(refused.value)
    store.prepare = opened  # type: ignore[method-assign]  # as it was
    new = activation(root, store).reconcile(left.activation_id)
    assert (new.state, projection.current_activation_id(root)) == ("ACTIVE", left.activation_id)
    assert activation(root, store).status().unfinished == ()
