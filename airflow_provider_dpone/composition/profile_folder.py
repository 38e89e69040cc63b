"""Reading what `dev/profiles/component_profile.py` wrote: two files that have to say the same, to the byte.

`summary.json` names the receipt by its digest and `junit.xml` by the digest of its bytes, so a file that was changed by
hand is refused. That is no signature: who may record a receipt is decided by the ledger's grants, and the two files are
to be taken from the run itself.
"""

from __future__ import annotations

import os
import stat
import xml.etree.ElementTree as ET  # written by the profile's runner, bounded, and bound by its digest before it is parsed
from pathlib import Path
from typing import Any, NoReturn

from airflow_provider_dpone.contracts import canonical
from airflow_provider_dpone.contracts.errors import AdmissionRefused, ConfigurationError
from airflow_provider_dpone.contracts.gate_profile import SCHEMA, GateReceipt, receipt_from

SUMMARY_SCHEMA = "dpone.component-profile-result.v2"
SUMMARY, JUNIT = "summary.json", "junit.xml"
_FILE_LIMIT = 1024 * 1024
_TEXT_LIMIT = 2000
#: How a case of junit.xml ended, by the element that it holds.
_OUTCOMES = {"failure": "failed", "error": "error", "skipped": "skipped"}


def read_profile_folder(folder: Path) -> GateReceipt:
    """The receipt of a folder. Whether it is green, and of which server, is for the ledger to judge."""
    summary = _summary(folder / SUMMARY)
    if summary.get("schema") != SUMMARY_SCHEMA or summary.get("profile") != "gate":
        _refuse(folder, "its summary.json is not that of a gate profile run by this version")
    if summary.get("receipt_sha256") is None:
        _refuse(folder, f"the run left no receipt: {_problems(summary)}")
    receipt = _receipt(folder, summary)
    junit = _read(folder / JUNIT)
    if canonical.sha256_text(junit) != summary.get("junit_sha256"):
        _refuse(folder, "its junit.xml is not the one that summary.json names")
    if _junit_cases(folder, junit) != [(case.name, case.outcome) for case in receipt.cases]:
        _refuse(folder, "its summary.json and its junit.xml name other cases or outcomes")
    return receipt


def _receipt(folder: Path, summary: dict[str, Any]) -> GateReceipt:
    try:
        cases = [{"name": case["name"], "outcome": case["outcome"]} for case in summary["cases"]]
        members = {name: summary[name] for name in ("profile", "result", "engine", "product_version", "source")}
        receipt = receipt_from({"schema": SCHEMA, **members, "cases": cases})
    except (KeyError, TypeError, AdmissionRefused) as err:
        reason = err.reason if isinstance(err, AdmissionRefused) else "a member is missing"
        raise _refusal(folder, f"its summary.json holds no whole receipt ({reason})") from err
    if receipt.sha256 != summary["receipt_sha256"]:
        _refuse(folder, "its summary.json is not as it was written: the receipt has another digest")
    return receipt


def _junit_cases(folder: Path, junit: bytes) -> list[tuple[str, str]]:
    try:
        cases = list(ET.fromstring(junit).iter("testcase"))
    except (ET.ParseError, ValueError, LookupError) as err:  # the last two: an encoding that the parser does not have
        raise _refusal(folder, "its junit.xml is not XML") from err
    ends = (next((_OUTCOMES[child.tag] for child in case if child.tag in _OUTCOMES), "passed") for case in cases)
    return sorted((case.get("name", ""), end) for case, end in zip(cases, ends, strict=True))


def _summary(path: Path) -> dict[str, Any]:
    try:
        return canonical.strict_object(_read(path))
    except canonical.StrictJsonError as err:
        raise _refusal(path.parent, f"its {path.name} cannot be read: {err}") from err


def _read(path: Path) -> bytes:
    try:
        # Not blocking: opening a pipe would wait for somebody who writes it.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            plain = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            data = file.read(_FILE_LIMIT + 1) if plain else b""
    except OSError as err:
        raise _refusal(path.parent, f"{path.name} cannot be read: {err.strerror}") from err
    if not plain:
        _refuse(path.parent, f"{path.name} is no plain file")
    if len(data) > _FILE_LIMIT:
        _refuse(path.parent, f"{path.name} is larger than {_FILE_LIMIT} bytes")
    return data


def _problems(summary: dict[str, Any]) -> str:
    """What the run said went wrong, as far as a terminal can show it: nobody has verified this text."""
    found = summary.get("problems")
    if not isinstance(found, list) or not found:
        return "it does not say why"
    text = "; ".join(map(str, found))
    shown = "".join(each if each.isprintable() else "?" for each in text[:_TEXT_LIMIT])
    return shown if len(text) <= _TEXT_LIMIT else f"{shown} ..."


def _refuse(folder: Path, what: str) -> NoReturn:
    raise _refusal(folder, what)


def _refusal(folder: Path, what: str) -> ConfigurationError:
    return ConfigurationError(
        "gate_profile_folder",
        happened=f"{folder} is not the untouched result of a gate profile: {what}.",
        not_done="nothing was recorded.",
        check="run the profile again into a new folder, and record that folder as it is.",
        avoid="edit the files of a run.",
    )
