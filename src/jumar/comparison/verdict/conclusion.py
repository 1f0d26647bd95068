"""Draws the answer of a comparison from the evidence: status, headline and findings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from importlib import import_module

from jumar.base.findings import Finding, Severity
from jumar.base.plugins import is_offered
from jumar.base.text import counted
from jumar.comparison.model.results import Comparison, ComparisonStatus, Coverage, LossPair, OperatorDiff, Share
from jumar.comparison.model.words import number, place
from jumar.comparison.verdict.agreement import shortfalls
from jumar.comparison.verdict.long_runs import deciding_onset, drift_headline, history_words
from jumar.comparison.walk.evidence import Evidenced, evidence_of, incomparable, summary
from jumar.comparison.walk.losses import first_disagreement


def conclude(found: Evidenced) -> Comparison:
    """Return the comparison: status, headline and findings, most decisive first."""
    why_not = incomparable(found)
    if why_not:
        found.first = found.random = found.nonfinite = None
        found.leaves = []
    coverage = _coverage_of(found)
    if not why_not and deciding_onset(found) is not None:
        found.random, found.leaves = None, []
    status = _status(found, why_not)
    if status == "agree":
        found.against = shortfalls(found)
        status = "differ" if found.against else "agree"
    findings = _findings_of(found)
    headline = drift_headline(found) if status == "diverge" else ""
    headline = headline or _headline(found, status, findings, coverage)
    if status == "agree" and (words := history_words(found)):
        headline += f" Compared: {words}."
    return Comparison(
        status=status,
        headline=headline,
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
        coverage=coverage,
        differences=tuple(one.sentence for one in found.against),
        drifts=tuple(found.drifts),
    )


def _coverage_of(found: Evidenced) -> Coverage:
    """Return what was compared."""
    steps, ranks = (Share(compared=n[0], reference=n[1], target=n[2]) for n in found.shares.values())
    losses = _loss_share(found.losses, found.steps)
    return Coverage(values=found.tally.num_values, losses=losses, steps=steps, ranks=ranks, **found.tally.shares())


def _loss_share(losses: Iterable[LossPair], steps: Iterable[int]) -> Share:
    """Return how many losses of the compared steps were compared."""
    compared = set(steps)
    pairs = [pair for pair in losses if pair.step in compared]
    return Share(
        compared=sum(pair.agrees is not None for pair in pairs),
        reference=sum(pair.reference is not None for pair in pairs),
        target=sum(pair.target is not None for pair in pairs),
    )


def _status(found: Evidenced, why_not: str) -> ComparisonStatus:
    """Return what the values say."""
    if why_not:
        return "incomparable"
    if found.first is not None or _ranks_differ(found) or deciding_onset(found) is not None:
        return "diverge"
    if found.leaves or found.random is not None:
        return "incomparable"
    if not all(skip.benign for skip in found.skipped):
        return "diverge"
    return "agree" if first_disagreement(found.losses) is None else "diverge"


def _ranks_differ(found: Evidenced) -> bool:
    """Return whether ranks that must hold the same do not; equal data of two ranks change no number."""
    return any(diff.kind != "data" for diff in found.correspondence.ranks)


def _headline(found: Evidenced, status: ComparisonStatus, findings: list[Finding], coverage: Coverage) -> str:
    if status == "agree" and found.correspondence.ranks_only:
        return _agreement_of_ranks(found)
    if status == "agree":
        return f"The {_runs(found)} agree: {_equal(found, coverage)}."
    if status == "diverge" and _runs(found) == "checkpoints":
        from jumar.comparison.verdict.checkpoints import checkpoint_headline

        if told := checkpoint_headline(found):
            return told
    if status == "differ":
        at = "" if len(found.against) == 1 else f" at {len(found.against)} points"
        return f"The {_runs(found)} differ{at}. {found.against[0].sentence}. Of the rest, {_equal(found, coverage)}."
    return _parting(found, status, findings)


def _parting(found: Evidenced, status: ComparisonStatus, findings: list[Finding]) -> str:
    """Return where values part, or why they cannot be compared."""
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


def _runs(found: Evidenced) -> str:
    formats = {str(run.info.environment.get("format", "")) for run in (found.reference, found.target)}
    return "checkpoints" if formats == {"checkpoint"} else "runs" if found.tally.has_inputs else "recordings"


def _equal(found: Evidenced, coverage: Coverage) -> str:
    """Return what was compared and differs by no more than rounding, and what there was nothing of."""
    of_checkpoints = _runs(found) == "checkpoints"
    single = "parameter" if of_checkpoints else "tensor"
    what = single if not found.tally.has_inputs else "module call" if found.kinds == {"module"} else "operator call"
    counts = [(coverage.values, what), (coverage.gradients.compared, "gradient")]
    counts.append((coverage.parameters.compared, "parameter"))
    compared = ", ".join([_num(num, noun) for num, noun in counts if num])
    steps = f" in {_steps(coverage.steps)}" if found.tally.has_inputs else ""
    ranks = f" on {coverage.ranks.compared} ranks" if coverage.ranks.compared > 1 else ""
    verb = "differs" if compared.startswith("1 ") and "," not in compared and " and " not in compared else "differ"
    return (
        f"{compared}{steps}{ranks} {verb} by no more than rounding explains{_losses(found, coverage)}"
        f"{_partners(found, coverage, what)}{_until(found)}{_open_ends(found, coverage)}{_foreign(found)}"
    )


def _foreign(found: Evidenced) -> str:
    """Return that modules stood in for operators, where the two runs' operators share no name."""
    told = "; no operator has a name in both runs, so operators were not compared one by one"
    return told if found.foreign_operators else ""


def _num(num: int, noun: str) -> str:
    return f"{num:,} {noun}{'' if num == 1 else 's'}"


def _is_whole(share: Share) -> bool:
    return share.compared >= max(share.reference, share.target)


def _steps(share: Share) -> str:
    return _num(share.compared, "step") if _is_whole(share) else share.of("steps")


def _open_ends(found: Evidenced, coverage: Coverage) -> str:
    """Return which run has not ended, where steps of the other one could not be compared for it."""
    if _is_whole(coverage.steps):
        return ""
    sides = {"reference": found.reference, "target": found.target}
    return "".join(
        f"; the {side} has not ended"
        for side, run in sides.items()
        if not run.ends and "format" not in run.info.environment
    )


def _losses(found: Evidenced, coverage: Coverage) -> str:
    """Return how far the losses agree, and what of a training was not compared at all."""
    if not found.tally.has_inputs:
        return ""
    steps = set(found.steps)
    errors = [pair.error for pair in found.losses if pair.error is not None and pair.agrees and pair.step in steps]
    greatest = max(errors, default=None)
    said = "" if greatest is None else f"; losses agree within {number(greatest, 2)}" if greatest else "; equal losses"
    if coverage.losses.compared and not _is_whole(coverage.losses):
        said += f" ({coverage.losses.of('losses')})"
    shares = {"loss": coverage.losses, "gradient": coverage.gradients, "parameter": coverage.parameters}
    none = [f"no {noun}" for noun, share in shares.items() if not share.compared]
    return f"{said}; {' and '.join(filter(None, (', '.join(none[:-1]), none[-1])))} was compared" if none else said


def _partners(found: Evidenced, coverage: Coverage, what: str) -> str:
    """Return how many calls have a partner, where not all do, and why the others are no difference."""
    if _is_whole(coverage.calls):
        return f"; every {what} has a partner"
    reasons = list(found.tally.explained)
    why = f", each of the others {'; or '.join(reasons)}" if reasons and not any(found.tally.extra) else ""
    return f"; {coverage.calls.of(what + 's')} have a partner{why}"


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
    ("drift_begins", deciding_onset),
    ("inputs_differ", lambda found: found.leaves),
    ("parameters_differ", lambda found: found.leaves or found.correspondence.transposed),
    ("random_numbers_differ", lambda found: found.random),
    ("ranks_differ", lambda found: found.correspondence.ranks),
    ("first_divergence", lambda found: found.first),
    ("update_skipped", lambda found: found.skipped),
    ("drift_begins", lambda found: deciding_onset(found) is None and any(drift.onset for drift in found.drifts)),
    ("optimizer_settings_differ", lambda found: found.correspondence.hyperparameters),
    ("layer_settings_differ", lambda found: found.correspondence.layers),
    ("nonfinite_appears", lambda found: found.nonfinite or not all(map(_is_finite, found.losses))),
    ("loss_differs", lambda found: not all(pair.agrees for pair in found.losses)),
    ("ill_conditioned", lambda found: any(diff.kind == "parameter" and diff.inherited for diff in _judged(found))),
    ("runs_differ", lambda found: found.against),
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
