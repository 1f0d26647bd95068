"""The answer of a report in one sentence, and its findings."""

from __future__ import annotations

from dataclasses import replace

from jumar.accuracy.overflow.results import OverflowReport
from jumar.accuracy.overflow.words import counts, place
from jumar.accuracy.rules.overflow import OVERFLOW_FINDERS
from jumar.findings import Finding, Severity
from jumar.words import counted


def conclude(report: OverflowReport) -> OverflowReport:
    """Return the report with its findings, the most decisive first, and its headline."""
    findings = tuple(finding for find in OVERFLOW_FINDERS for finding in find(report))
    ordered = tuple(sorted(findings, key=lambda finding: -int(finding.severity)))
    return replace(report, findings=ordered, headline=_headline(report, findings))


def _headline(report: OverflowReport, findings: tuple[Finding, ...]) -> str:
    decisive = {finding.code: finding for finding in findings if finding.severity >= Severity.ERROR}
    if report.first is not None:
        return _first(report)
    if "JM333" in decisive:
        item = next(s for s in report.saturations if s.used and s.certain and not s.skipped)
        return f"The first operator that overflows is {place(item)}: on this chip it saturates."
    if "JM332" in decisive:
        return f"Training does not go on: {decisive['JM332'].message}"
    if "JM335" in decisive:
        return decisive["JM335"].message
    steps = counted(len(report.steps), "step")
    skips = f" The scaler skipped {counted(len(report.skips), 'step')}, and training goes on." if report.skips else ""
    harmless = f" ({counted(report.num_benign, 'origin')} of NaN or Inf without harm)" if report.num_benign else ""
    mode = "" if report.mode == "all" else f" of {report.mode}"
    return f"No overflow{mode} is used in {steps}{harmless}.{skips}"


def _first(report: OverflowReport) -> str:
    origin = report.first
    assert origin is not None
    what = "NaN" if origin.num_nan and not origin.num_inf else "Inf"
    if origin.kind == "data":
        return (
            f"The data are not finite: {counts(origin)} in {origin.tensor} of {place(origin)}; no operator made them."
        )
    if origin.kind in {"parameter", "state"}:
        noun = "A parameter" if origin.kind == "parameter" else "A buffer or state"
        return f"{noun} was not finite from the start: {counts(origin)} in {origin.tensor} of {place(origin)}."
    if origin.kind == "constant" and origin.turned_by:
        return f"An Inf that the program put there is used: {origin.turned_by} makes NaN of what {place(origin)} gave."
    if origin.kind == "peer":
        return f"{what} came from another rank with a collective; it is first read by {place(origin)}."
    if origin.kind in {"unseen", "uninitialised", "constant"}:
        return f"{what} that no calculation made is used: {place(origin)}, {origin.cause}."
    return f"The first operator that makes {what} of finite values, and it is used, is {place(origin)}."
