"""`jumar convert --check`: uses of CUDA that are new since the baseline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from jumar.base.findings import Finding, Json
from jumar.base.text import counted
from jumar.cli.answer import print_document
from jumar.convert.reports.baseline import Baseline, compare, uses_of
from jumar.show.convert.request import Job, Request


def check(job: Job) -> int:
    """Compare the uses of CUDA in the sources with the known ones; return 1 when some are new."""
    from jumar.cli.commands.convert.sources import converted
    from jumar.show.convert.check import check_document, tell_check
    from jumar.show.convert.reports import write_findings_sarif
    from jumar.show.convert.result import Result

    request = job.request
    path = request.baseline
    known = Baseline.read(path) if path is not None and not request.write_baseline else Baseline()
    conversion = converted(job)
    base = path.parent if path is not None else conversion.root
    places = [(use, as_in_source(finding)) for use, finding in uses_of(conversion.files, conversion.root, base)]
    comparison = compare(known.within(_place(request, base)), places)
    if request.write_baseline:
        assert path is not None
        return _write(path, Baseline.of(places), request, _place(request, base))
    if request.sarif is not None:
        result = Result(job=job, conversion=conversion, folder=None, proof=(), seconds=0.0)
        write_findings_sarif(request.sarif, comparison.findings, result)
    if request.as_json:
        print_document(**check_document(comparison, conversion))
    elif not request.quiet:
        tell_check(comparison, conversion, request)
    return int(bool(comparison.new))


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


def _place(request: Request, base: Path) -> str:
    """Return what is checked as a path from the baseline's folder."""
    import os

    return Path(os.path.relpath(Path(request.source).resolve(), base.resolve())).as_posix()


def _write(path: Path, baseline: Baseline, request: Request, place: str) -> int:
    """Write the uses to the file; its entries for other places stay."""
    from jumar.base.files import write_result

    if path.exists():
        old = Baseline.read(path)
        inside = old.within(place).uses
        others = {use: count for use, count in old.uses.items() if use not in inside}
        baseline = Baseline({**others, **baseline.uses})
    write_result(path, baseline.text(), force=True)
    if not request.quiet:
        number = sum(baseline.uses.values())
        click.echo(f"{counted(number, 'known use')} of CUDA → {path}. Commit it with the sources.")
    return 0
