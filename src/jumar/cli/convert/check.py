"""`jumar convert --check`: uses of CUDA that are new since the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from jumar.cli.convert.request import Job, Request
from jumar.findings import Finding, Json
from jumar.migrate import Conversion
from jumar.migrate.baseline import Baseline, Comparison, Use, compare, uses_of
from jumar.words import counted

_MOST_GONE = 10


def check(job: Job) -> int:
    """Compare the uses of CUDA in the sources with the known ones; return 1 when some are new."""
    from jumar.cli.convert.outputs import write_findings_sarif
    from jumar.cli.convert.result import Result
    from jumar.cli.convert.sources import converted

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
    _tell(comparison, conversion, request)
    return int(bool(comparison.new))


def as_in_source(finding: Finding) -> Finding:
    """Return a finding as it is about the unchanged source: what would be converted is still there."""
    if not finding.evidence.get("applied"):
        return finding
    from jumar.migrate.rules import RULES

    severity = next((rule.severity for rule in RULES if rule.code == finding.code), finding.severity)
    action = finding.action or "jumar convert does it."
    return replace(finding, severity=max(severity, finding.severity), action=action, evidence=_plain(finding))


def _plain(finding: Finding) -> dict[str, Json]:
    return {name: value for name, value in finding.evidence.items() if name != "applied"}


def _place(request: Request, base: Path) -> str:
    """Return what is checked as a path from the baseline's folder."""
    import os

    return Path(os.path.relpath(Path(request.source).resolve(), base.resolve())).as_posix()


def _write(path: Path, baseline: Baseline, request: Request, place: str) -> int:
    """Make the file say what is there; what it says of other places stays."""
    from jumar.report import write_text

    if path.exists():
        old = Baseline.read(path)
        inside = old.within(place).uses
        others = {use: count for use, count in old.uses.items() if use not in inside}
        baseline = Baseline({**others, **baseline.uses})
    write_text(path, baseline.text(), force=True)
    if not request.quiet:
        number = sum(baseline.uses.values())
        click.echo(f"{counted(number, 'known use')} of CUDA → {path}. Commit it with the sources.")
    return 0


def _tell(comparison: Comparison, conversion: Conversion, request: Request) -> None:
    if request.as_json:
        _print_json(comparison, conversion)
        return
    if request.quiet:
        return
    from jumar.report import print_findings

    num_new, num_gone = sum(comparison.new.values()), sum(comparison.gone.values())
    click.echo(
        f"{counted(num_new, 'new use')} of CUDA in {counted(len(conversion.files), 'file')}"
        f" ({comparison.num_known:,} known)."
    )
    if comparison.findings:
        click.echo()
        print_findings(comparison.findings, title="New")
        click.echo(_what_next(request))
    if num_gone:
        click.echo(f"\n{counted(num_gone, 'known use')} gone, which is an improvement:")
        _print_gone(comparison, most=len(comparison.gone) if request.verbose else _MOST_GONE)
        click.echo("--write-baseline keeps it so.")


def _what_next(request: Request) -> str:
    if request.baseline is None:
        return "\n--baseline FILE --write-baseline makes these the known ones."
    return "\nRemove them, mark a line with `# jumar: ignore`, or accept them with --write-baseline."


def _print_gone(comparison: Comparison, most: int) -> None:
    uses: Sequence[Use] = sorted(comparison.gone)
    for use in uses[:most]:
        times = f" ({comparison.gone[use]} times)" if comparison.gone[use] > 1 else ""
        click.echo(f"  {use.code}  {use.path}: {use.line}{times}")
    if len(uses) > most:
        click.echo(f"  … and {len(uses) - most} more; --verbose shows all")


def _print_json(comparison: Comparison, conversion: Conversion) -> None:
    from jumar.report import findings_document, json_text

    document = findings_document(
        comparison.findings,
        num_files=len(conversion.files),
        num_known=comparison.num_known,
        num_new=sum(comparison.new.values()),
        num_gone=sum(comparison.gone.values()),
        new=[_entry(use, comparison.new[use]) for use in sorted(comparison.new)],
        gone=[_entry(use, comparison.gone[use]) for use in sorted(comparison.gone)],
    )
    click.echo(json_text(document), nl=False)


def _entry(use: Use, count: int) -> dict[str, object]:
    return {"code": use.code, "path": use.path, "line": use.line, "count": count}
