"""`jumar convert --check`: uses of CUDA that are new since the baseline."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jumar.base.findings import Finding, Json
from jumar.base.text import counted
from jumar.cli.answer import print_document
from jumar.convert.reports.baseline import Baseline, Comparison, compare, uses_of
from jumar.show.convert.request import Job, Request

if TYPE_CHECKING:
    from jumar.convert import Conversion


def check(job: Job) -> int:
    """Compare the uses of CUDA in the sources with the known ones; return 1 when some are new."""
    from jumar.cli.commands.convert.sources import converted
    from jumar.show.convert.check import check_document, tell_check

    request = job.request
    jobs = [replace(job, request=replace(request, source=one, more_sources=())) for one in request.sources]
    conversions = [converted(one) for one in jobs]
    path = request.baseline
    known = Baseline.read(path) if path is not None and not request.write_baseline else Baseline()
    base = path.parent if path is not None else conversions[0].root if len(jobs) == 1 else Path()
    places = [
        (use, as_in_source(finding) if len(jobs) == 1 else _from_here(as_in_source(finding), conversion.root))
        for conversion in conversions
        for use, finding in uses_of(conversion.files, conversion.root, base)
    ]
    within = [known.within(_place(one, base)) for one in request.sources]
    comparison = compare(Baseline({use: count for one in within for use, count in one.uses.items()}), places)
    if request.write_baseline:
        assert path is not None
        return _write(path, Baseline.of(places), request, [_place(one, base) for one in request.sources])
    if request.sarif is not None:
        _write_sarif(request.sarif, job, conversions, comparison)
    if request.as_json:
        print_document(**check_document(comparison, conversions))
    elif not request.quiet:
        tell_check(comparison, conversions, request)
    return int(bool(comparison.new))


def _from_here(finding: Finding, root: Path) -> Finding:
    """Return a finding whose path is one from the current folder: of several sources each has a root of its own."""
    path = os.path.relpath(root / (finding.where.path or ""))
    return replace(finding, where=replace(finding.where, path=path))


def _write_sarif(path: Path, job: Job, conversions: Sequence[Conversion], comparison: Comparison) -> None:
    from jumar.show.convert.reports import write_findings_sarif
    from jumar.show.convert.result import Result

    if len(conversions) > 1:
        from jumar.show.sarif import write_sarif

        write_sarif(path, comparison.findings, Path.cwd())
        return
    result = Result(job=job, conversion=conversions[0], folder=None, proof=(), seconds=0.0)
    write_findings_sarif(path, comparison.findings, result)


def as_in_source(finding: Finding) -> Finding:
    """Return a finding as one about the unchanged source, where nothing is converted yet."""
    if not finding.evidence.get("applied"):
        return finding
    from jumar.convert.rules.order import rules_by_code

    rule = rules_by_code().get(finding.code)
    severity = rule.severity if rule is not None else finding.severity
    action = finding.action or "jumar convert does it."
    return replace(finding, severity=max(severity, finding.severity), action=action, evidence=_plain(finding))


def _plain(finding: Finding) -> dict[str, Json]:
    return {name: value for name, value in finding.evidence.items() if name != "applied"}


def _place(source: str, base: Path) -> str:
    """Return what is checked as a path from the baseline's folder."""
    return Path(os.path.relpath(Path(source).resolve(), base.resolve())).as_posix()


def _write(path: Path, baseline: Baseline, request: Request, places: Sequence[str]) -> int:
    """Write the uses to the file; its entries for other places stay."""
    from jumar.base.files import write_result

    if path.exists():
        old = Baseline.read(path)
        inside = {use for place in places for use in old.within(place).uses}
        others = {use: count for use, count in old.uses.items() if use not in inside}
        baseline = Baseline({**others, **baseline.uses})
    write_result(path, baseline.text(), force=True)
    if not request.quiet:
        number = sum(baseline.uses.values())
        click.echo(f"{counted(number, 'known use')} of CUDA → {path}. Commit it with the sources.")
    return 0
