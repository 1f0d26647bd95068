"""Draws the answer of a comparison from the evidence: status, headline and findings."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module

from jumar.base.findings import Finding, Severity
from jumar.base.plugins import is_offered
from jumar.base.text import counted
from jumar.comparison.model.results import Comparison, ComparisonStatus, LossPair, OperatorDiff
from jumar.comparison.model.words import number, place
from jumar.comparison.walk.evidence import Evidenced, evidence_of, incomparable, summary
from jumar.comparison.walk.losses import first_disagreement


def conclude(found: Evidenced) -> Comparison:
    """Return the comparison: status, headline and findings, most decisive first."""
    if incomparable(found):
        found.first = found.random = found.nonfinite = None
        found.leaves = []
    findings = _findings_of(found)
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
    if incomparable(found):
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
        return (
            f"The runs cannot be compared: {f'{incomparable(found)}.' if incomparable(found) else findings[0].message}"
        )
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


_ORDER: tuple[tuple[str, Callable[[Evidenced], object]], ...] = (
    ("inputs_differ", lambda found: found.leaves),
    ("parameters_differ", lambda found: found.leaves or found.correspondence.transposed),
    ("random_numbers_differ", lambda found: found.random),
    ("ranks_differ", lambda found: found.correspondence.ranks),
    ("first_divergence", lambda found: found.first),
    ("update_skipped", lambda found: found.skipped),
    ("optimizer_settings_differ", lambda found: found.correspondence.hyperparameters),
    ("nonfinite_appears", lambda found: found.nonfinite or not all(map(_is_finite, found.losses))),
    ("loss_differs", lambda found: not all(pair.agrees for pair in found.losses)),
    ("ill_conditioned", lambda found: any(diff.kind == "parameter" and diff.inherited for diff in _judged(found))),
    ("settings_differ", lambda found: found.settings),
    ("arguments_differ", lambda found: any(diff.arguments for diff in _judged(found))),
    ("structure_differs", lambda found: found.correspondence.structure),
    ("unmatched_operators", lambda found: found.unmatched_reference or found.unmatched_target),
    ("modules_renamed", lambda found: found.correspondence.renamed),
    ("steps_shifted", lambda found: found.correspondence.shifts),
    ("not_comparable", lambda found: found.notes or incomparable(found)),
)
"""The rules, the most decisive first, each with the part of the evidence that it looks at."""


def _findings_of(found: Evidenced) -> list[Finding]:
    """Return the findings of all rules, the most decisive first. That nothing could be compared comes before all.

    The rules of other distributions come last.
    """
    findings = [
        finding
        for name, looks_at in _ORDER
        if looks_at(found)
        for finding in import_module(f"jumar.comparison.verdict.rules.{name}").find(found)
    ]
    if is_offered("rule"):
        from jumar.base.rules import installed_modules

        findings += [finding for module in installed_modules("comparison") for finding in module.find(found)]
    return sorted(findings, key=lambda finding: (finding.code, finding.severity) != ("JM310", Severity.ERROR))


def _judged(found: Evidenced) -> list[OperatorDiff]:
    return found.operators.judged()


def _is_finite(pair: LossPair) -> bool:
    return all(loss is None or math.isfinite(loss) for loss in (pair.reference, pair.target))
