"""What a conversion writes: the tree, and the reports in it."""

from __future__ import annotations

import os
import platform
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from jumar import __version__
from jumar.cli.convert.request import Job
from jumar.errors import OutputError
from jumar.findings import Finding, Severity
from jumar.migrate import Conversion, Failure
from jumar.migrate.reports import (
    ReportNames,
    Unsupported,
    change_list,
    left_over,
    log,
    report_names,
    workbook,
)
from jumar.rules import Rule


@dataclass(frozen=True, kw_only=True)
class Result:
    """A finished conversion, for everything that tells of it."""

    job: Job
    conversion: Conversion
    folder: Path | None
    """Where it is written, None when it is not."""
    proof: tuple[Finding, ...]
    """What `--verify` and `--verify-run` say."""
    seconds: float

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Those of the conversion and of its proof."""
        return (*self.conversion.findings, *self.proof)

    @cached_property
    def names(self) -> ReportNames:
        """What the reports are called."""
        if self.job.request.in_place:
            return ReportNames()
        files = (*(outcome.path for outcome in self.conversion.files), *self.conversion.others)
        return report_names({path.partition("/")[0] for path in files})

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that findings may name."""
        from jumar.cli.rule import all_rules

        return tuple(all_rules())

    @cached_property
    def num_made(self) -> Mapping[str, int]:
        """Rule code to the number of its edits that were made."""
        return Counter(finding.code for finding in self.findings if finding.evidence.get("applied"))

    @cached_property
    def num_left(self) -> Mapping[Severity, int]:
        """Severity to the number of findings that ask for something, the worst first."""
        counts = Counter(finding.severity for finding in self.left)
        return {level: counts[level] for level in sorted(counts, reverse=True)}

    @cached_property
    def left(self) -> tuple[Finding, ...]:
        """What asks for something."""
        return left(self.findings)

    @cached_property
    def lacking(self) -> tuple[Unsupported, ...]:
        """What the sources call that the NPU does not have, and the conversion does not speak of."""
        return tuple(assessed(self.conversion))

    @cached_property
    def facts(self) -> Mapping[str, str]:
        """What was asked for, with which versions."""
        options, request = self.job.options, self.job.request
        rules = options.user_rules
        given = {
            "input": str(Path(request.source).resolve()),
            "output": str(self.folder) if self.folder is not None else "",
            "target": options.target,
            "unsafe edits": "made" if options.unsafe else "",
            "device": "from the environment (-s)" if options.device_from_environment else "",
            "similar APIs": "replaced (-sim)" if options.similar else "",
            "user rules": f"{len(rules.rules)} of {rules.path}" if rules else "",
            "enabled": ", ".join(sorted(options.enable)),
            "disabled": ", ".join(sorted(options.disable)),
            "several devices": f"{options.distributed.main}, model {options.distributed.model}"
            if options.distributed
            else "",
            "command": shlex.join(["jumar", *request.arguments]),
            "versions": f"jumar {__version__}, Python {platform.python_version()}",
        }
        return {name: text for name, text in given.items() if text}

    def numbers(self) -> dict[str, Any]:
        """Return the counts for documents."""
        conversion = self.conversion
        return {
            "num_files": len(conversion.files),
            "num_changed": len(conversion.changed),
            "num_failed": len(conversion.failures),
            "num_edits": conversion.num_edits,
            "num_left": {level.label: number for level, number in self.num_left.items()},
            "changed": [outcome.path for outcome in conversion.changed],
            "failed": [{"path": failure.path, "error": failure.error} for failure in conversion.failures],
        }


def left(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings that ask for something."""
    return tuple(finding for finding in findings if is_left(finding))


def is_left(finding: Finding) -> bool:
    """Tell whether a finding asks for something: it was not converted, or needs a look after it was."""
    applied = bool(finding.evidence.get("applied"))
    return finding.severity >= (Severity.WARNING if applied else Severity.ADVICE)


def write(result: Result) -> Path | None:
    """Write the output folder, whole or not at all; return the patch that leads back from a conversion in place.

    Raises OutputError, and InputError when a source changed since it was read.
    """
    assert result.folder is not None
    made = reports(result)
    if result.job.request.in_place:
        return _write_in_place(result, result.folder, made)
    result.conversion.write(result.folder, result.job.request.force, reports=made)
    if result.names.launcher in made:
        (result.folder / result.names.launcher).chmod(0o755)
    return None


def _write_in_place(result: Result, folder: Path, made: Mapping[str, bytes]) -> Path:
    """Change the sources, and put the reports into a folder beside them; patches of earlier times stay there."""
    patch = result.conversion.write_in_place(folder / result.names.patch)
    for name, data in made.items():
        if name != result.names.patch:
            _put(folder / name, data)
    return patch


def _put(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        raise OutputError(f'"{path}" cannot be written: {error.strerror}. The sources were converted.') from error
    finally:
        temporary.unlink(missing_ok=True)


def reports(result: Result) -> dict[str, bytes]:
    """Return every report by its file name."""
    from jumar.cli.convert.page import convert_page
    from jumar.report import findings_document, json_text, render_html

    names, conversion = result.names, result.conversion
    document = findings_document(result.findings, **result.numbers())
    found = {
        names.findings: json_text(document).encode("utf-8", "backslashreplace"),
        names.patch: conversion.patch_bytes(),
        names.changes: change_list(result.findings),
        names.unsupported: workbook([*result.lacking, *left_over(conversion.findings)], _about(result)),
        names.page: render_html(convert_page(result)).encode(),
    }
    if result.job.options.distributed is not None:
        from jumar.migrate.launch import script

        found[names.launcher] = script(result.job.options.distributed.main, result.job.options)
    found[names.log] = _log(result, found).encode("utf-8", "backslashreplace")
    return found


def _log(result: Result, found: Mapping[str, bytes]) -> str:
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    head = {"time": f"{now}, {result.seconds:.1f} s", **result.facts}
    notes = ["Other reports:", *(f"  {name}" for name in sorted(found))]
    renamed = [name for name in (*found, result.names.log) if name.startswith("jumar-")]
    if renamed:
        notes += [
            f"The sources have files called as reports are; these reports have other names: {', '.join(renamed)}."
        ]
    return log(result.conversion, head, result.rules, notes)


_REASONS = {
    "unsupported": "The vendor lists it as not supported.",
    "fallback": "It runs on the host, and its tensors travel there and back.",
    "unverified": "The vendor has not verified it.",
}
"""What the statuses of an assessment mean, for rows that the tables say nothing more about."""


def assessed(conversion: Conversion) -> list[Unsupported]:
    """Assess the sources that use PyTorch, one row a place.

    Names of torch.cuda, and places that findings of the conversion are about, are left to those.
    """
    from jumar.assess import assess_source

    files = [
        conversion.root / outcome.path
        for outcome in conversion.files
        if not isinstance(outcome, Failure) and outcome.path.endswith((".py", ".pyw")) and b"torch" in outcome.before
    ]
    if not files:
        return []
    base = _common(files)
    known = {(finding.where.path, finding.where.line) for finding in left(conversion.findings)}
    rows = []
    for row in assess_source(files).rows:
        if row.status not in _REASONS or "cuda" in row.name.lower():
            continue
        for where in row.where:
            path = (base / (where.path or "")).relative_to(conversion.root).as_posix()
            if (path, where.line) not in known:
                reason = row.note or _REASONS[row.status]
                rows.append(
                    Unsupported(
                        name=row.name,
                        status=row.status,
                        file=path,
                        line=where.line,
                        reason=reason,
                        counterpart=row.npu_name,
                        source=row.source,
                    )
                )
    return rows


def _common(files: list[Path]) -> Path:
    return Path(os.path.commonpath([file.parent for file in files]))


def _about(result: Result) -> dict[str, str]:
    from jumar.cli.options import DEFAULT_SOC

    return {
        "What this is": "Operators and APIs of the sources that the NPU does not have (unsupported), leaves to the "
        "host (fallback) or that the vendor has not verified, one row a place; and what the conversion left for you.",
        "SoC and version": f"{DEFAULT_SOC}, PyTorch and torch_npu 2.13; jumar assess IN --soc SOC answers for others.",
        **result.facts,
    }


def write_sarif(path: Path, result: Result) -> None:
    """Write the findings as SARIF; of sources that were changed in place, what is left."""
    findings = result.left if result.job.request.in_place else result.findings
    write_findings_sarif(path, findings, result)


def write_findings_sarif(path: Path, findings: tuple[Finding, ...], result: Result) -> None:
    """Write these findings of a conversion as SARIF. Raises OutputError."""
    from jumar.cli.sarif import write_sarif as write_document

    write_document(path, findings, result.conversion.root, line_of=_line_of(result.conversion))


def _line_of(conversion: Conversion) -> Any:
    from jumar.migrate.baseline import lines_of

    lines: dict[str, list[str]] = {}
    before = {outcome.path: outcome.before for outcome in conversion.files}

    def line_of(path: str, number: int) -> str | None:
        if path not in lines:
            lines[path] = lines_of(before.get(path, b""))
        return lines[path][number - 1] if 0 < number <= len(lines[path]) else None

    return line_of
