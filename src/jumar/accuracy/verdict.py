"""Draws the answer from the evidence."""

from __future__ import annotations

from jumar.accuracy.evidence import Evidenced, evidence_of, summary
from jumar.accuracy.losses import first_disagreement
from jumar.accuracy.results import Comparison, ComparisonStatus
from jumar.accuracy.rules import FINDERS
from jumar.accuracy.rules.not_comparable import reason
from jumar.accuracy.words import number, place
from jumar.findings import Finding
from jumar.words import counted


def conclude(found: Evidenced) -> Comparison:
    """Return the comparison: status, headline and findings, most decisive first."""
    if reason(found):
        found.first = found.random = found.nonfinite = None
        found.leaves = []
    findings = [finding for find in FINDERS for finding in find(found)]
    status = _status(found)
    return Comparison(
        status=status,
        headline=_headline(found, status, findings),
        reference=summary(found.reference),
        target=summary(found.target),
        first_divergence=found.first,
        operators=found.operators,
        unmatched_reference=tuple(found.unmatched_reference),
        unmatched_target=tuple(found.unmatched_target),
        losses=tuple(found.losses),
        findings=tuple(findings),
        steps=tuple(found.steps),
        num_operators=dict(found.counts),
        evidence=evidence_of(found.operators),
        notes=tuple(found.notes),
    )


def _status(found: Evidenced) -> ComparisonStatus:
    if reason(found):
        return "incomparable"
    if found.first is not None or _ranks_differ(found):
        return "diverge"
    if found.leaves or found.random is not None:
        return "incomparable"
    if not all(skip.benign for skip in found.skipped):
        return "diverge"
    return "agree" if first_disagreement(found.losses) is None else "diverge"


def _ranks_differ(found: Evidenced) -> bool:
    """Return whether ranks that must hold the same do not; equal data of two ranks change no number."""
    return any(diff.kind != "data" for diff in found.correspondence.ranks)


def _headline(found: Evidenced, status: ComparisonStatus, findings: list[Finding]) -> str:
    if status == "agree":
        return _agreement_of_ranks(found) if found.correspondence.ranks_only else _agreement(found)
    if status == "incomparable":
        return f"The runs cannot be compared: {f'{reason(found)}.' if reason(found) else findings[0].message}"
    if found.first is None and _ranks_differ(found):
        return f"The ranks differ. {next(finding.message for finding in findings if finding.code == 'JM314')}"
    if found.first is None and not all(skip.benign for skip in found.skipped):
        return f"The runs diverge at an update. {next(f.message for f in findings if f.code == 'JM316')}"
    if found.first is None:
        return f"The losses diverge. {findings[0].message}"
    return f"The runs diverge first at {found.first.name} in {place(found.first)}."


def _agreement(found: Evidenced) -> str:
    compared = sum(found.counts[status] for status in ("agree", "inherited"))
    errors = [pair.error for pair in found.losses if pair.error is not None and pair.agrees]
    greatest = max(errors, default=None)
    losses = (
        "" if greatest is None else f"; losses agree within {number(greatest, 2)}" if greatest else "; equal losses"
    )
    what = "module" if found.kinds == {"module"} else "operator"
    return (
        f"The runs agree: {counted(compared, f'{what} call')} in {counted(len(set(found.steps)), 'step')} "
        f"differ by no more than rounding explains{losses}{_until(found)}."
    )


def _until(found: Evidenced) -> str:
    if not found.skipped:
        return ""
    skip = found.skipped[0]
    return f"; up to the update of step {skip.step}, which GradScaler skipped in the {skip.side} only"


def _agreement_of_ranks(found: Evidenced) -> str:
    return (
        f"The ranks agree: parameters, gradients and collectives are the same in {counted(len(found.steps), 'step')}."
    )
