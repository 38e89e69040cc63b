"""An author's folder may hold anything: it is refused by a named reason, soon, and leaves nothing behind."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_dpone.composition import plain_files, release
from airflow_provider_dpone.composition.dbt_manifest import parse_project
from airflow_provider_dpone.composition.manifest import read_composition, read_workload
from airflow_provider_dpone.contracts.errors import ConfigurationError
from tests.support.compositions import ORDINARY, write_source

#: Values that YAML's types cannot take, and mappings in which one key would win over another without a word.
NO_VALUES = {
    "an int of no digits": "a: 0x_",
    "an int of a word": "a: !!int abc",
    "an int of 5,000 digits": "a: " + "1" * 5000,
    "a float of a word": "a: !!float abc",
    "a bool of a word": "a: !!bool x",
    "a time of a word": "a: !!timestamp x",
    "a day that no month has": "a: 2026-13-45",
    "the year 0": "a: 0000-01-01",
    "an offset of four days": "a: 2001-01-01T00:00:00+99:99",
    "a list that is called a map": "!!map [a]",
    "a lone surrogate": "a: \ud800",
    "a NUL": "a: \0",
    "an object": "a: !!python/object:os.system x",
    "a key twice": "{a: 1, 'a': 2}",
    "a key twice by a merge": "{a: 1, <<: {a: 2}}",
    "an alias": "a: &x 1\nb: *x",
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("text", NO_VALUES.values(), ids=NO_VALUES.keys())
def test_text_that_is_no_yaml_of_ours_is_refused_as_such(text: str) -> None:
    for read in (read_workload, read_composition):
        with pytest.raises(ConfigurationError) as refused:
            read(text, "w.yaml")
        assert refused.value.reason == "manifest_not_yaml"


def test_a_mapping_of_a_hundred_thousand_keys_is_refused_soon_and_shortly() -> None:
    """Linear work: comparing each key with every other took minutes."""
    began = time.process_time()
    with pytest.raises(ConfigurationError, match=r"and 99[0-9]* more") as refused:
        read_workload(ORDINARY + "".join(f"k{number}: 1\n" for number in range(100_000)), "w.yaml")
    assert refused.value.reason == "manifest_refused" and len(str(refused.value)) < 10_000
    assert time.process_time() - began < 30


def _sparse(file: Path) -> None:
    with open(file, "wb") as opened:
        opened.truncate(1 << 40)


def _deep(file: Path) -> None:
    where = os.open(file.parent, os.O_RDONLY)
    for _ in range(700):
        os.mkdir("d", dir_fd=where)
        inner = os.open("d", os.O_RDONLY, dir_fd=where)
        os.close(where)
        where = inner
    os.close(where)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (os.mkfifo, "release_link"),
        (_sparse, "release_size"),
        (lambda file: file.symlink_to("/dev/zero"), "release_link"),
        (lambda file: file.with_name("two\nlines").touch(), "release_name"),
        (lambda file: Path(os.fsdecode(bytes(file.parent) + b"/no\xffutf8")).touch(), "release_name"),
        (lambda file: file.with_name("esc\x1b[2J").mkdir(), "release_name"),
        (_deep, "release_not_written"),
    ],
    ids=["pipe", "a sparse terabyte", "link to a device", "newline", "no UTF-8", "escape", "deep"],
)
def test_a_folder_that_holds_more_than_files_is_refused_before_it_is_copied(
    tmp_path: Path, make: Callable[[Path], None], reason: str
) -> None:
    source = write_source(tmp_path / "source")
    make(source / "z")
    with pytest.raises(ConfigurationError) as refused:
        release.build(source, tmp_path / "release")
    assert refused.value.reason == reason, refused.value
    assert "\x1b" not in str(refused.value) and str(refused.value).isascii()
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_too_many_files_are_not_copied_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_source(tmp_path / "source")
    monkeypatch.setattr(plain_files, "FILE_COUNT_LIMIT", 2)
    with pytest.raises(ConfigurationError, match="release_size"):
        release.build(source, tmp_path / "release")
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_read_only_checkout_makes_a_release_that_its_owner_can_finish_and_remove(tmp_path: Path) -> None:
    source = write_source(tmp_path / "source")
    (source / "queries").mkdir()
    for folder in (source / "queries", source):
        folder.chmod(0o555)
    release.build(source, tmp_path / "release")
    assert {folder.stat().st_mode & 0o777 for folder in (tmp_path / "release", tmp_path / "release" / "queries")} == {
        0o755
    }


def test_names_that_look_alike_are_different_files(tmp_path: Path) -> None:
    """Composed and decomposed, upper and lower case: a name is its bytes, and one cannot stand for the other."""
    source = write_source(tmp_path / "source")
    for name in ("caf\u00e9.sql", "cafe\u0301.sql", "A.sql", "a.sql", "no\u00a0break.sql"):
        (source / name).write_text(name)
    built = release.build(source, tmp_path / "release")
    assert release.read(tmp_path / "release").release_id == built.release_id
    os.rename(tmp_path / "release" / "caf\u00e9.sql", tmp_path / "release" / "elsewhere")
    with pytest.raises(ConfigurationError, match="release_closure"):
        release.read(tmp_path / "release")


@pytest.mark.parametrize(
    "text",
    ["- a", "profile: [a]", "name: 2026-13-45", "a: [", "profile: \xff"],
    ids=["list", "name", "day", "yaml", "utf8"],
)
def test_a_dbt_project_file_that_is_none_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "dbt_project.yml").write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigurationError, match="dbt_project") as refused:
        parse_project(tmp_path, database="dw", schema="s")
    assert refused.value.reason == "dbt_project"
