"""Findings as SARIF 2.1.0, the form in which code hosts and editors take the results of a check.

One result a finding, with its region, its edit as a fix, and a fingerprint that stays when lines move.
Columns count code points, as Python does, and the document says so.
"""

from __future__ import annotations

import hashlib
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jumar import __version__
from jumar.base.errors import OutputError
from jumar.base.files import write_result
from jumar.base.findings import Edit, Finding, Location, Severity
from jumar.base.rules import Rule, all_rules, documentation
from jumar.show.blocks.documents import json_text, plain

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
VERSION = "2.1.0"
_ROOT = "SRCROOT"
_LEVELS = {Severity.INFO: "note", Severity.ADVICE: "note", Severity.WARNING: "warning", Severity.ERROR: "error"}
_RANKS = {"certain": 100.0, "likely": 70.0, "possible": 40.0}

LineOf = Callable[[str, int], str | None]
"""Text of a line (from 1) of a file, None where it is not known."""


def write_sarif(
    path: Path, findings: Iterable[Finding], root: Path | None = None, *, line_of: LineOf | None = None
) -> None:
    """Write findings of any room as SARIF, replacing an older SARIF file.

    Raises OutputError where `path` holds something else.
    """
    if path.is_file() and path.stat().st_size and b'"runs"' not in path.read_bytes():
        raise OutputError(f'"--sarif {path}" exists and is no SARIF file, so it is not replaced; give another name.')
    document = sarif_document(findings, all_rules(), root=root, line_of=line_of)
    write_result(path, json_text(document), force=True)


def sarif_document(
    findings: Iterable[Finding],
    rules: Iterable[Rule],
    *,
    root: Path | None = None,
    line_of: LineOf | None = None,
    command: str = "",
) -> dict[str, Any]:
    """Return the SARIF log of one run. `rules` may hold more than the findings name; only those named are listed.

    Paths of findings are relative to `root`; without it the reader of the file chooses the folder. `line_of`
    gives the text for fingerprints; without it the message is used. Raises KeyError for a finding of a rule
    that is not among `rules`.
    """
    found = list(findings)
    by_code = {rule.code: rule for rule in rules}
    codes = sorted({finding.code for finding in found})
    index = {code: position for position, code in enumerate(codes)}
    prints = _fingerprints(found, line_of)
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "Jumar",
                "semanticVersion": __version__,
                "version": __version__,
                "rules": [_rule(by_code[code]) for code in codes],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True, **({"commandLine": command} if command else {})}],
        "results": [_result(finding, index, mark) for finding, mark in zip(found, prints, strict=True)],
    }
    if root is not None:
        run["originalUriBaseIds"] = {_ROOT: {"uri": f"{root.resolve().as_uri()}/"}}
    return {"$schema": SCHEMA, "version": VERSION, "runs": [run]}


def _rule(rule: Rule) -> dict[str, Any]:
    page = inspect.cleandoc(documentation(rule)).strip()
    return {
        "id": rule.code,
        "name": "".join(part.capitalize() for part in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.summary},
        "help": {"text": page, "markdown": page},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": ["pytorch", "migration"], "fix": rule.safety or "none", "lifecycle": rule.lifecycle},
    }


def _result(finding: Finding, index: Mapping[str, int], fingerprint: str) -> dict[str, Any]:
    text = finding.message + (f" {finding.action}" if finding.action else "")
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index[finding.code],
        "level": _LEVELS[finding.severity],
        "rank": _RANKS[finding.confidence],
        "message": {"text": text},
        "partialFingerprints": {"jumarUse/v1": fingerprint},
        "properties": {"severity": finding.severity.label, "evidence": plain(finding.evidence)},
    }
    if finding.severity is Severity.INFO:
        result["kind"] = "informational"
        result["level"] = "none"
    if finding.where.path:
        result["locations"] = [{"physicalLocation": _physical(finding.where)}]
    if finding.edit is not None:
        result["fixes"] = [_fix(finding.edit, finding.action or finding.message)]
    return result


def _physical(where: Location) -> dict[str, Any]:
    region: dict[str, Any] = {}
    if where.line is not None:
        region["startLine"] = where.line
        if where.column is not None:
            region["startColumn"] = where.column
        if where.end_line is not None:
            region["endLine"] = max(where.end_line, where.line)
    place: dict[str, Any] = {"artifactLocation": _artifact(where.path or "")}
    return {**place, "region": region} if region else place


def _artifact(path: str) -> dict[str, Any]:
    uri = quote(path.replace("\\", "/").encode("utf-8", "surrogateescape"))
    return {"uri": uri} if path.startswith("/") else {"uri": uri, "uriBaseId": _ROOT}


def _fix(edit: Edit, description: str) -> dict[str, Any]:
    """Return the edit as a replacement of whole lines, or of the file's end where no line end closes them."""
    closed = edit.before.endswith(("\n", "\r"))
    region: dict[str, Any] = {"startLine": edit.start_line, "startColumn": 1}
    if closed:
        region |= {"endLine": edit.end_line + 1, "endColumn": 1}
    else:
        last = edit.before.splitlines()[-1] if edit.before else ""
        region |= {"endLine": edit.end_line, "endColumn": len(last) + 1}
    replacement = {"deletedRegion": region, "insertedContent": {"text": edit.after}}
    change = {"artifactLocation": _artifact(edit.path), "replacements": [replacement]}
    return {"description": {"text": f"{description} ({edit.safety})"}, "artifactChanges": [change]}


def _fingerprints(findings: Sequence[Finding], line_of: LineOf | None) -> list[str]:
    """Return a digest a finding of its rule, file, the text of its line, and its number among equal ones."""
    seen: Counter[tuple[str, str, str]] = Counter()
    found = []
    for finding in findings:
        where = finding.where
        line = line_of(where.path, where.line) if line_of and where.path and where.line else None
        key = (finding.code, where.path or str(where), " ".join((finding.message if line is None else line).split()))
        seen[key] += 1
        words = "\0".join([*key, str(seen[key])])
        found.append(hashlib.sha256(words.encode("utf-8", "backslashreplace")).hexdigest()[:32])
    return found
