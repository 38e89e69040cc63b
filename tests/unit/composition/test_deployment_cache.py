"""What the cache accepts before it switches `current`, and what it says when it cannot know."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_dpone.composition import deployment, projection, release
from airflow_provider_dpone.composition.activation import CompositionActivation, Standing
from airflow_provider_dpone.composition.coordinator import CompositionActivationCoordinator
from airflow_provider_dpone.composition.deployment_cache import DeploymentCacheMaterializer, Occurrence
from airflow_provider_dpone.composition.execution_plan import plan_composition_execution
from airflow_provider_dpone.composition.factory import (
    build_composition_activation,
    build_composition_activation_coordinator,
)
from airflow_provider_dpone.composition.services import GuardServices, guarded_attempt
from airflow_provider_dpone.composition.sources import build_composition_source_reader
from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.errors import (
    ActivationUnknown,
    AdmissionRefused,
    ConfigurationError,
    GuardError,
    ParentNotActive,
)
from airflow_provider_dpone.drivers import Secret
from airflow_provider_dpone.drivers.mssql import MsSqlDsn
from airflow_provider_dpone.ledger import Activation, LedgerSettings
from tests.support import ledger_records as make
from tests.support.compositions import Servers, Store, activation, coordinator, write_source

OTHER = "sha256:" + "1" * 64


@pytest.fixture
def built(tmp_path: Path) -> Path:
    release.build(write_source(tmp_path / "source"), tmp_path / "release")
    return tmp_path / "release"


class Forging(CompositionActivationCoordinator):
    """Answers with what `forge` makes of the true receipt of a step."""

    def __init__(self, store: Store, step: str, forge: Callable[[Activation], Any]) -> None:
        self._true = coordinator(store)
        self._step, self._forge = step, forge

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_"):
            return object.__getattribute__(self, name)
        found = getattr(self._true, name)
        if name != self._step:
            return found
        return lambda *args, **kwargs: self._forge(found(*args, **kwargs))


def context_of(receipt: Activation, **changed: Any) -> Activation:
    request = replace(receipt.request, context=replace(receipt.request.context, **changed))
    return replace(receipt, request=request, request_sha256=request.sha256, activation_id=request.activation_id)


FORGERIES: dict[str, Callable[[Activation], Any]] = {
    "untyped": lambda receipt: {"state": receipt.state},
    "nothing": lambda receipt: None,
    "native": lambda receipt: type("NativeReceipt", (), {"state": receipt.state, "request": receipt.request})(),
    "subclass": lambda receipt: type("Other", (Activation,), {})(
        **{name: getattr(receipt, name) for name in Activation.__dataclass_fields__}
    ),
    "retiring": lambda receipt: replace(receipt, state="RETIRING"),
    "another deployment": lambda receipt: context_of(receipt, deployment_id=OTHER),
    "another release": lambda receipt: context_of(receipt, release_id=OTHER),
    "another environment": lambda receipt: context_of(receipt, environment="other"),
    "another predecessor": lambda receipt: context_of(receipt, previous_deployment_id=OTHER),
    "another occurrence": lambda receipt: context_of(receipt, activation_id="00000000-0000-4000-8000-000000000001"),
    "another digest": lambda receipt: replace(receipt, request_sha256=OTHER),
    "a guard missing": lambda receipt: replace(receipt, guard_epochs=receipt.guard_epochs[1:]),
    "a guard more": lambda receipt: replace(receipt, guard_epochs=(*receipt.guard_epochs, (OTHER, 1))),
}


@pytest.mark.parametrize("name", sorted(FORGERIES))
def test_current_is_switched_for_a_typed_receipt_of_exactly_this_occurrence_only(
    built: Path, tmp_path: Path, name: str
) -> None:
    root = tmp_path / "root"
    with pytest.raises(ActivationUnknown, match="DPONE_COMPOSITION_ACTIVATION_COMMIT_UNKNOWN"):
        CompositionActivation(root, Forging(Store(), "prepare", FORGERIES[name])).activate(built)
    assert projection.current_activation_id(root) is None


AFTERWARDS = {
    **FORGERIES,
    "still prepared": lambda receipt: replace(receipt, state="PREPARED"),
    "other epochs": lambda receipt: replace(
        receipt, guard_epochs=tuple((guard, epoch + 1) for guard, epoch in receipt.guard_epochs)
    ),
}


@pytest.mark.parametrize("name", sorted(AFTERWARDS))
def test_an_acknowledgement_that_is_not_that_of_the_switched_occurrence_is_unknown_and_recovered(
    built: Path, tmp_path: Path, name: str
) -> None:
    root, store = tmp_path / "root", Store()
    with pytest.raises(ActivationUnknown) as refused:
        CompositionActivation(root, Forging(store, "activate", AFTERWARDS[name])).activate(built)
    assert refused.value.code == "DPONE_COMPOSITION_ACTIVATION_COMMIT_UNKNOWN"
    assert refused.value.state_may_have_changed and refused.value.recovery_required
    (left,) = activation(root, store).status().unfinished
    assert refused.value.details["command"] == left.command
    assert {path.name for path in root.iterdir()} >= {"deployments", "activations", "current.json", "unfinished"}
    assert activation(root, store).reconcile(left.activation_id).state == "ACTIVE"


def test_without_capabilities_the_public_way_is_shut(built: Path, tmp_path: Path) -> None:
    for refused in (
        lambda: build_composition_activation_coordinator(),
        lambda: build_composition_activation(tmp_path / "root"),
    ):
        with pytest.raises(AdmissionRefused, match="DPONE_COMPOSITION_ADMISSION_UNAVAILABLE: protected_capabilities"):
            refused()
    cache = DeploymentCacheMaterializer(tmp_path / "root")
    plan = plan_composition_execution(build_composition_source_reader().read_sources(built))
    domains = {alias: Servers().resolve(alias, binding) for alias, binding in plan.sources.bindings}
    sealed = deployment.seal(cache.root / "deployments", built, plan.sources, domains)
    occurrence = cache.begin(sealed, previous_deployment_id=None)
    for step in (cache.prepare, cache.promote):
        with pytest.raises(AdmissionRefused, match="coordinator_absent"):
            step(occurrence)
    assert projection.current_activation_id(cache.root) is None


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"environment": "other"}, "projection_context"),
        ({"release_id": OTHER}, "projection_context"),
        ({"deployment_id": OTHER}, "sealed_deployment"),
        ({"previous_deployment_id": OTHER}, "immutable_request"),
    ],
)
def test_stale_coordinates_are_refused_in_every_step(
    built: Path, tmp_path: Path, changed: dict[str, str], reason: str
) -> None:
    root, store = tmp_path / "root", Store()
    steps = coordinator(store)
    active = activation(root, store).activate(built)
    context = active.request.context
    coordinates: dict[str, Any] = {
        "projection_root": DeploymentCacheMaterializer(root).folder(context.deployment_id),
        "activation_id": context.activation_id,
        "environment": context.environment,
        "release_id": context.release_id,
        "deployment_id": context.deployment_id,
        "previous_deployment_id": None,
    }
    assert steps.require_active(**coordinates) == active == steps.prepare(**coordinates)
    for step in (steps.require_active, steps.prepare):
        with pytest.raises(GuardError, match=reason):
            step(**{**coordinates, **changed})
    assert store.states == {active.activation_id: "ACTIVE"}
    store.states[active.activation_id] = "RETIRING"
    for step in (steps.require_active, steps.prepare):
        with pytest.raises(ParentNotActive):
            step(**coordinates)


def test_the_native_trios_that_a_deployment_selected_are_sealed_with_it_and_compared_in_every_step(
    built: Path, tmp_path: Path
) -> None:
    root, store = tmp_path / "root", Store()
    active = activation(root, store).activate(built)
    context = active.request.context
    folder = DeploymentCacheMaterializer(root).folder(context.deployment_id)
    (trio,) = build_composition_source_reader().read_sources(built).native.trios
    manifest = canonical.sha256_text((built / "native.yaml").read_bytes())
    plan = canonical.sha256_text((built / "runtime" / "delays.json").read_bytes())
    assert (trio.workload_id, trio.manifest_sha256, trio.plan_sha256) == ("delays", manifest, plan)
    document = canonical.strict_object((folder / "deployment.json").read_bytes())
    assert document["native_trios"] == [[trio.workload_id, manifest, trio.pack_sha256, plan]]
    # One that was sealed with another selection, as if by another program: everything else is the same.
    document["native_trios"][0][2] = OTHER
    forged = canonical.exact_bytes(document)
    other = shutil.copytree(folder, folder.with_name(canonical.sha256_text(forged).removeprefix("sha256:")))
    Path(other, "deployment.json").write_bytes(forged)
    coordinates: dict[str, Any] = {
        "projection_root": Path(other),
        "activation_id": context.activation_id,
        "environment": context.environment,
        "release_id": context.release_id,
        "deployment_id": canonical.sha256_text(forged),
        "previous_deployment_id": None,
    }
    steps = coordinator(store)
    for step in (steps.require_active, steps.prepare, steps.require_admissible):
        with pytest.raises(AdmissionRefused, match="native_trios"):
            step(**coordinates)
    assert store.states == {active.activation_id: "ACTIVE"}


def test_other_packages_than_the_sealed_ones_put_nothing_in_force_and_keep_nothing_there(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, store = tmp_path / "root", Store()
    prepared = activation(root, store).prepare(built)
    here = deployment.runtime()
    monkeypatch.setattr(deployment, "runtime", lambda: {**here, "psycopg": "0.1"})
    with pytest.raises(AdmissionRefused, match="runtime_context") as refused:
        activation(root, store).reconcile(prepared.activation_id)
    assert "psycopg" in str(refused.value)
    retired = activation(root, store).retire(prepared.activation_id)
    assert retired is not None and retired.state == "RETIRED"


def test_a_stale_pointer_is_not_replaced(built: Path, tmp_path: Path) -> None:
    """The compare of compare and swap: `current` is what it was when the occurrence was begun."""
    root, store = tmp_path / "root", Store()
    cache = DeploymentCacheMaterializer(root, composition_activation_coordinator=coordinator(store))
    active = activation(root, store).activate(built)
    sealed = cache.deployment(active.request.context.deployment_id)
    store.states[active.activation_id] = "RETIRED"
    stale = cache.begin(sealed, previous_deployment_id=OTHER)
    with pytest.raises(ActivationUnknown, match="current_moved"):
        cache.promote(stale)
    assert projection.current_activation_id(root) == active.activation_id
    (left,) = activation(root, store).status().unfinished
    assert left.activation_id == stale.activation_id
    retired = activation(root, store).retire(stale.activation_id)
    assert retired is not None and retired.state == "RETIRED"


def damages(text: str, activation_id: str) -> tuple[str, ...]:
    return ("", "[]", text[:-1], text.replace(activation_id, OTHER), text.replace("drains", "other"))


def test_a_damaged_note_hides_no_other_and_the_ledger_knows_the_rest(built: Path, tmp_path: Path) -> None:
    for number in range(5):
        root, store = tmp_path / f"root {number}", Store()
        active = activation(root, store).activate(built)
        store.lost = {"prepare"}
        with pytest.raises(ActivationUnknown):
            store.states[active.activation_id] = "RETIRED"
            activation(root, store).prepare(built)
        store.lost = set()
        (note,) = root.glob("unfinished/*.json")
        strange = root / "unfinished" / "what is this.json"
        strange.mkdir() if number == 0 else strange.write_text("{}")
        note.write_text(damages(note.read_text(), note.stem)[number])
        first, second = activation(root, store).status().unfinished
        assert (first.activation_id, first.state) == (note.stem, "PREPARED")
        assert first.command == f"dponectl composition reconcile {note.stem}" and note.name in str(first.problem)
        assert second.problem and str(strange) in second.command
        subprocess.run(["sh", "-c", second.command], check=True)
        assert activation(root, store).reconcile(note.stem).state == "ACTIVE"
        assert activation(root, store).status().unfinished == ()


def test_a_damaged_note_of_which_the_ledger_holds_nothing_is_given_up_by_the_command_that_is_named(
    built: Path, tmp_path: Path
) -> None:
    root, store = tmp_path / "root", Store()
    active = activation(root, store).activate(built)
    cache = DeploymentCacheMaterializer(root)
    noted = cache.begin(cache.deployment(active.request.context.deployment_id), previous_deployment_id=None)
    (root / "unfinished" / f"{noted.activation_id}.json").write_text("")
    (left,) = activation(root, store).status().unfinished
    assert (left.state, left.command) == (None, f"dponectl composition retire {noted.activation_id}")
    with pytest.raises(GuardError, match=f"composition retire {noted.activation_id}"):
        activation(root, store).reconcile(noted.activation_id)
    assert activation(root, store).retire(noted.activation_id) is None
    assert activation(root, store).status().unfinished == () and store.states == {active.activation_id: "ACTIVE"}


@pytest.mark.parametrize("damaged", ["current.json", "activations"])
@pytest.mark.parametrize("text", ["", "{}", None])
def test_a_pointer_that_says_nothing_is_written_again_by_the_command_that_is_named(
    built: Path, tmp_path: Path, damaged: str, text: str | None
) -> None:
    """The ledger knows what is in force; the files only save the look."""
    root, store = tmp_path / "root", Store()
    active = activation(root, store).activate(built)
    file = root / damaged if damaged == "current.json" else root / damaged / f"{active.activation_id}.json"
    if text is not None:
        file.write_text(text)
    elif damaged == "activations":
        file.unlink()
    else:
        file.unlink()
        file.symlink_to("nowhere")
    for step in (lambda: projection.load_workload(root, "planes"), lambda: activation(root, store).hand_over(built)):
        with pytest.raises(ConfigurationError):
            step()
    (left,) = activation(root, store).status().unfinished
    assert left.command == f"dponectl composition reconcile {active.activation_id}" and file.name in str(left.problem)
    assert activation(root, store).reconcile(active.activation_id) == active
    assert projection.load_workload(root, "planes").activation_id == active.activation_id
    assert activation(root, store).status() == Standing(current=active, unfinished=())


def test_a_damaged_pointer_where_nothing_is_in_force_can_go(built: Path, tmp_path: Path) -> None:
    root, store = tmp_path / "root", Store()
    active = activation(root, store).activate(built)
    (root / "current.json").write_text("")
    activation(root, store).retire(active.activation_id)
    (left,) = activation(root, store).status().unfinished
    assert left.command == f"rm {root / 'current.json'}" and "current.json cannot be read" in str(left.problem)
    (root / "current.json").unlink()
    assert activation(root, store).status().unfinished == ()
    assert activation(root, store).activate(built).state == "ACTIVE"


def test_a_prepared_successor_does_not_replace_a_damaged_pointer_beside_another_activation_in_force(
    built: Path, tmp_path: Path
) -> None:
    """Compare and swap without the pointer: the ledger says whether something else is in force under this root."""
    root, store = tmp_path / "root", Store()
    first = activation(root, store).activate(built)
    store.states[first.activation_id] = "RETIRED"
    second = activation(root, store).prepare(built)
    store.states[first.activation_id] = "ACTIVE"
    (root / "current.json").write_text("")
    with pytest.raises(ActivationUnknown, match="current_unreadable"):
        activation(root, store).reconcile(second.activation_id)
    assert (root / "current.json").read_text() == "" and store.states[second.activation_id] == "PREPARED"
    named = {left.activation_id: left.command for left in activation(root, store).status().unfinished}
    assert set(named) == {first.activation_id, second.activation_id}
    store.states[first.activation_id] = "RETIRED"
    assert activation(root, store).reconcile(second.activation_id).state == "ACTIVE"
    assert projection.load_workload(root, "planes").activation_id == second.activation_id


def test_notes_that_cannot_be_listed_are_not_none(tmp_path: Path) -> None:
    (tmp_path / "unfinished").write_text("")
    with pytest.raises(ConfigurationError, match="unfinished cannot be listed"):
        activation(tmp_path, Store()).status()


def test_a_handover_that_was_left_half_done_has_one_command(built: Path, tmp_path: Path) -> None:
    """It goes on with both: the predecessor is retired on the way."""
    root, store = tmp_path / "root", Store()
    old = activation(root, store).activate(built)
    store.lost, store.sent = {"finalize_retirement"}, False
    with pytest.raises(GuardError):
        activation(root, store).hand_over(built, patience=0)
    assert store.states == {old.activation_id: "RETIRING"}
    store.lost = set()
    (left,) = activation(root, store).status().unfinished
    assert left.activation_id != old.activation_id and left.command.split()[2] == "reconcile"
    new = activation(root, store).reconcile(left.activation_id)
    assert store.states == {old.activation_id: "RETIRED", new.activation_id: "ACTIVE"}
    assert activation(root, store).status().unfinished == ()


def test_what_killed_writers_left_half_written_goes_with_the_next_step(built: Path, tmp_path: Path) -> None:
    root, store = tmp_path / "root", Store()
    active = activation(root, store).activate(built)
    left = [
        root / f"current.json.{'0' * 16}.new",
        root / "unfinished" / f"{active.activation_id}.json.{'a' * 16}.new",
        root / "activations" / f"{active.activation_id}.json.{'9' * 16}.new",
    ]
    others = [root / "mine.new", root / "unfinished" / "note.json.new"]
    for file in (*left, *others):
        file.write_text("half")
    sealing = root / "deployments" / ".sealing-abc"
    (sealing / "release").mkdir(parents=True)
    assert activation(root, store).status().unfinished == (), "half a note is none"
    assert activation(root, store).hand_over(built, patience=0).state == "ACTIVE"
    assert not any(file.exists() for file in (*left, sealing)) and all(file.exists() for file in others)


@pytest.mark.parametrize("lost", ["release/planes.yaml", "release/release.json", "release/runtime/planes.json"])
def test_a_deployment_that_lost_files_is_mended_as_its_refusal_says(built: Path, tmp_path: Path, lost: str) -> None:
    root, store = tmp_path / "root", Store()
    active = activation(root, store).activate(built)
    context = active.request.context
    folder = DeploymentCacheMaterializer(root).folder(context.deployment_id)
    (folder / lost).unlink()
    for step in (lambda: projection.load_workload(root, "planes"), lambda: activation(root, store).hand_over(built)):
        with pytest.raises(ConfigurationError) as refused:
            step()
        said = str(refused.value)
        assert lost.removeprefix("release/") in said and f"compose verify FOLDER --expect {context.release_id}" in said
        assert "Not done: nothing was admitted" in said and "Do not: edit release.json" in said
    assert store.states == {active.activation_id: "ACTIVE"}
    shutil.copy(built / lost.removeprefix("release/"), folder / lost)
    assert projection.load_workload(root, "planes").activation_id == active.activation_id


def test_a_deployment_without_its_document_is_sealed_anew_as_its_refusal_says(built: Path, tmp_path: Path) -> None:
    root, store = tmp_path / "root", Store()
    active = activation(root, store).activate(built)
    folder = DeploymentCacheMaterializer(root).folder(active.request.context.deployment_id)
    (folder / "deployment.json").unlink()
    with pytest.raises(ConfigurationError, match="move the folder away and activate the release again"):
        activation(root, store).hand_over(built, patience=0)
    folder.rename(tmp_path / "away")
    again = activation(root, store).hand_over(built, patience=0)
    assert again.request.context.deployment_id == active.request.context.deployment_id
    assert store.states == {active.activation_id: "RETIRED", again.activation_id: "ACTIVE"}


def test_a_release_of_another_environment_is_refused_before_anything_is_reserved(built: Path, tmp_path: Path) -> None:
    root, store = tmp_path / "root", Store()
    elsewhere = activation(root, store, environment="production")
    for step in (elsewhere.prepare, elsewhere.activate, elsewhere.hand_over):
        with pytest.raises(AdmissionRefused, match="DPONE_COMPOSITION_ADMISSION_UNAVAILABLE: environment") as refused:
            step(built)
        assert "'test'" in str(refused.value) and "'production'" in str(refused.value)
    assert store.states == {} and not root.exists()
    prepared = activation(root, store, environment="test").prepare(built)
    with pytest.raises(AdmissionRefused, match="environment"):
        elsewhere.reconcile(prepared.activation_id)
    assert projection.current_activation_id(root) is None
    retired = elsewhere.retire(prepared.activation_id)
    assert retired is not None and retired.state == "RETIRED", "closing is never refused"


def test_a_task_of_another_environment_is_not_admitted(built: Path, tmp_path: Path) -> None:
    """Before any server is asked: the accounts here lead nowhere."""
    activation(tmp_path / "root", Store()).activate(built)
    account = MsSqlDsn(host="nowhere.invalid", port=1, database="c", user="u", password=Secret("p"))
    services = GuardServices(
        ledger=LedgerSettings(service_id=make.SERVICE),
        controller=account,
        issuer=account,
        closer=account,
        outcome_reader=account,
        source_reader=account,
        work_root=tmp_path,
        environment="production",
    )
    where = make.coordinates(dag_id="d")
    with pytest.raises(AdmissionRefused, match="UNAVAILABLE: environment"):
        guarded_attempt(services, projection.load_workload(tmp_path / "root", "planes"), where)


def test_an_occurrence_of_which_the_ledger_holds_nothing_is_given_up(built: Path, tmp_path: Path) -> None:
    root, store = tmp_path / "root", Store()
    active = activation(root, store).activate(built)
    cache = DeploymentCacheMaterializer(root)
    sealed = cache.deployment(active.request.context.deployment_id)
    noted: Occurrence = cache.begin(sealed, previous_deployment_id=sealed.deployment_id)
    (left,) = activation(root, store).status().unfinished
    assert (left.activation_id, left.state) == (noted.activation_id, None)
    assert activation(root, store).retire(noted.activation_id) is None
    assert activation(root, store).status().unfinished == ()
    assert store.states == {active.activation_id: "ACTIVE"}


NOTE = "11111111-1111-4111-8111-111111111111"


def link(target: str) -> Callable[[Path], None]:
    return lambda note: note.symlink_to(target)


def wrong(**members: object) -> Callable[[Path], int]:
    right = {
        "environment": "t",
        "release_id": "r",
        "deployment_id": OTHER,
        "previous_deployment_id": None,
        "drains": None,
    }
    document = {"schema": projection.OCCURRENCE_SCHEMA, "activation_id": NOTE, **right, **members}
    return lambda note: note.write_bytes(canonical.exact_bytes(document))


STRANGE: dict[str, Callable[[Path], object]] = {
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a link to nowhere": link("nowhere"),
    "a link to itself": link(f"{NOTE}.json"),
    "a link to a folder": link("."),
    "drains a list": wrong(drains=["x"]),
    "drains a mapping": wrong(drains={}),
    "drains no id": wrong(drains="../x"),
    "a predecessor that is a number": wrong(previous_deployment_id=5),
}


@pytest.mark.parametrize("name", sorted(STRANGE))
def test_whatever_stands_as_a_note_is_named_and_ended_by_the_command_that_is_named(
    built: Path, tmp_path: Path, name: str
) -> None:
    root, store = tmp_path / "root", Store()
    active = activation(root, store).activate(built)
    STRANGE[name](root / "unfinished" / f"{NOTE}.json")
    (left,) = activation(root, store).status().unfinished
    assert left.activation_id == NOTE and left.state is None and left.problem
    if left.command.startswith("rm "):
        subprocess.run(["sh", "-c", left.command], check=True)
    else:
        assert left.command == f"dponectl composition retire {NOTE}"
        assert activation(root, store).retire(NOTE) is None
    assert activation(root, store).status() == Standing(current=active, unfinished=())


def test_a_note_of_a_name_that_no_terminal_shows_is_named_as_text(built: Path, tmp_path: Path) -> None:
    root, store = tmp_path / "root", Store()
    activation(root, store).activate(built)
    (root / "unfinished" / os.fsdecode(b"\xff\x1b[2J'.json")).write_text("x")
    (left,) = activation(root, store).status().unfinished
    for said in (left.activation_id, left.problem, left.command):
        assert str(said).isprintable() and str(said).encode()
    subprocess.run(["bash", "-c", left.command], check=True)
    assert activation(root, store).status().unfinished == ()


@pytest.mark.parametrize("cause", ["environment", "damaged"])
def test_a_handover_that_would_be_refused_when_gone_on_with_leaves_the_predecessor_in_force(
    built: Path, tmp_path: Path, cause: str
) -> None:
    root, store = tmp_path / "root", Store()
    first = activation(root, store).activate(built)
    source = write_source(tmp_path / "source 2")
    (source / "further.sql").write_text("select 1\n")
    release.build(source, tmp_path / "release 2")
    ours = activation(root, store)
    begun = ours._begin(ours._sealed(tmp_path / "release 2", None), drains=first.activation_id)
    if cause == "damaged":
        (DeploymentCacheMaterializer(root).folder(begun.deployment_id) / "release" / "further.sql").unlink()
    later = activation(root, store, environment="production" if cause == "environment" else None)

    with pytest.raises(AdmissionRefused, match="is in force") as refused:
        later.reconcile(begun.activation_id, patience=0)

    assert f"dponectl composition retire {begun.activation_id}" in str(refused.value)
    assert store.states == {first.activation_id: "ACTIVE"}
    assert later.retire(begun.activation_id) is None
    assert later.status().unfinished == () and store.states == {first.activation_id: "ACTIVE"}
