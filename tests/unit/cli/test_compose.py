"""`dponectl compose`: what an author does with files alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from airflow_provider_dpone.cli.main import cli
from airflow_provider_dpone.contracts import canonical
from tests.support.compositions import write_source


def compose(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["compose", *map(str, arguments)])


@pytest.fixture
def built(tmp_path: Path) -> Path:
    done = compose("build", write_source(tmp_path / "source"), tmp_path / "release", "--dbt-timeout", "60")
    assert done.exit_code == 0, done.output
    return tmp_path / "release"


def test_a_runtime_manifest_is_printed_to_the_byte(built: Path) -> None:
    printed = compose("show", built, "--runtime", "planes").stdout_bytes
    assert printed == (built / "runtime" / "planes.json").read_bytes()
    assert f"runtime      {canonical.sha256_text(printed)}" in compose("show", built).stdout
    unknown = compose("show", built, "--runtime", "nobody")
    assert unknown.exit_code != 0 and "nobody" in f"{unknown.output}{unknown.exception}"


def test_a_release_that_is_built_again_from_its_files_is_the_same(built: Path) -> None:
    verified = compose("verify", built, "--rebuild")
    assert verified.exit_code == 0 and "rebuilt: the same release" in verified.stdout


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "soon"])
def test_a_time_for_dbt_that_is_none_is_refused(tmp_path: Path, seconds: str) -> None:
    refused = compose("build", write_source(tmp_path / "source"), tmp_path / "release", "--dbt-timeout", seconds)
    assert refused.exit_code == 2 and not (tmp_path / "release").exists()


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf"])
def test_a_patience_that_would_never_end_is_refused(tmp_path: Path, seconds: str) -> None:
    for command in (["activate", str(tmp_path), "--drain"], ["rollback"], ["reconcile", "x"]):
        refused = CliRunner().invoke(cli, ["composition", *command, "--patience", seconds])
        assert refused.exit_code == 2 and "--patience" in refused.output
