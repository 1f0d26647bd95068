"""The decision flow of the documents as code: each question looks at the comparison and gives an answer.

    comparable? settings? structure? data? parameters? random numbers? ranks?      a difference there ends the search
    NaN or Inf on one side? -> its origin
    does the first loss agree?   no -> the forward pass
                                 yes, later ones differ -> gradients? -> the backward pass
                                                           parameters after the step? -> the optimizer

(MindSpore's guide to accuracy debugging; Ascend's PyTorch migration and training guide, accuracy chapter.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from jumar.base.findings import Finding, Severity
from jumar.comparison.diagnosis.results import Answer, Cause, State, StepCurve
from jumar.comparison.model.results import Comparison, LossPair, OperatorDiff
from jumar.comparison.model.words import number, place, times_noise
from jumar.comparison.walk.losses import first_disagreement

GRADIENTS_AGREE = 1e-4
"""Relative error of all gradients together up to which those of two devices agree (float32, first step; bfloat16's
rounding is 40 times that and is judged by the operators)."""


@dataclass(frozen=True, slots=True)
class Case:
    """What the questions look at."""

    comparison: Comparison
    curves: Sequence[StepCurve]
    origin: Finding | None = None
    """The origin of NaN or Inf in the target, where it was looked for."""

    def of(self, *codes: str) -> list[Finding]:
        """Return the findings of the rules with these codes."""
        return [finding for finding in self.comparison.findings if finding.code in codes]

    @property
    def first(self) -> OperatorDiff | None:
        """The first divergence."""
        return self.comparison.first_divergence


def walk(case: Case) -> Iterator[Answer]:
    """Yield the answers in order, up to and with the one that ends the search."""
    for ask in QUESTIONS:
        answer = ask(case)
        if answer is None:
            continue
        yield answer
        if answer.cause is not None:
            return


def comparable(case: Case) -> Answer:
    """Ask whether the recordings have anything in common."""
    question = "Do the recordings share steps and values?"
    if case.comparison.status == "incomparable" and not case.comparison.num_operators:
        return _ends(question, "No: nothing is claimed.", case.comparison.headline, "not compared")
    errors = [f for f in case.of("JM310") if f.severity >= Severity.ERROR]
    if errors:
        return _ends(question, "No: nothing is claimed.", errors[0].message, "not compared")
    counts = ", ".join(f"{count:,} {status}" for status, count in case.comparison.num_operators.items())
    return Answer(question=question, answer="Yes.", state="fine", evidence=counts)


def settings(case: Case) -> Answer:
    """Ask whether the runs were configured alike; a difference is noted and does not end the search."""
    question = "Do settings, environment and hyperparameters agree?"
    found = case.of("JM304", "JM313")
    if not found:
        return Answer(question=question, answer="Yes, as far as they were recorded.", state="fine")
    matters = any(f.severity >= Severity.WARNING for f in found)
    return Answer(
        question=question,
        answer=f"No: {found[0].message}" if matters else f"In what matters, yes. {found[0].message}",
        state="attention" if matters else "fine",
        evidence="; ".join(f.message for f in found[1:3]),
    )


def structure(case: Case) -> Answer:
    """Ask whether the runs execute the same steps, modules and operators; a difference is noted."""
    question = "Do both runs execute the same steps, modules and operators?"
    found = case.of("JM306", "JM311", "JM312", "JM315")
    if not found:
        return Answer(question=question, answer="Yes.", state="fine")
    state: State = "attention" if any(f.severity >= Severity.WARNING for f in found) else "fine"
    more = "; ".join(f.message for f in found[1:3])
    return Answer(question=question, answer=f"Not quite: {found[0].message}", state=state, evidence=more)


def data(case: Case) -> Answer:
    """Ask whether both runs read the same data."""
    return _leaf(case, "Do both runs read the same data?", "JM302", "data")


def parameters(case: Case) -> Answer:
    """Ask whether both runs start from the same parameters."""
    return _leaf(case, "Do both runs start from the same parameters and buffers?", "JM303", "parameters")


def random_numbers(case: Case) -> Answer:
    """Ask whether dropout and other random operators drew the same numbers."""
    question = "Do random operators (dropout, initialisation) draw the same numbers?"
    return _leaf(case, question, "JM307", "random numbers")


def _leaf(case: Case, question: str, rule: str, cause: Cause) -> Answer:
    found = case.of(rule)
    errors = [f for f in found if f.severity >= Severity.ERROR]
    if errors:
        return _ends(question, f"No: {errors[0].message}", errors[0].action, cause)
    if found:
        return Answer(question=question, answer=f"Not altogether: {found[0].message}", state="attention")
    return Answer(question=question, answer="Yes.", state="fine")


def ranks(case: Case) -> Answer | None:
    """Ask whether the ranks of each run agree among each other where they must."""
    comparison = case.comparison
    if max(len(comparison.reference.ranks), len(comparison.target.ranks)) < 2:
        return None
    question = "Do the ranks agree among each other: seeds, parameters, gradients after the all-reduce?"
    found = [f for f in case.of("JM314") if f.severity >= Severity.WARNING]
    if not found:
        return Answer(question=question, answer="Yes, as far as was recorded.", state="fine")
    worst = max(found, key=lambda finding: finding.severity)
    if worst.severity >= Severity.ERROR:
        return _ends(question, f"No: {worst.message}", worst.action, "ranks")
    return Answer(question=question, answer=f"No: {worst.message}", state="attention", evidence=worst.action)


def updates(case: Case) -> Answer | None:
    """Ask whether both runs made the same updates; None where no scaler left one out on one side only."""
    found = case.of("JM316")
    if not found:
        return None
    question = "Did both runs make the same updates?"
    return Answer(question=question, answer=f"No: {found[0].message}", state="attention", evidence=found[0].why)


def nonfinite(case: Case) -> Answer:
    """Ask for NaN and Inf that only the target has, or has in its loss."""
    question = "Does NaN or Inf appear in one run only?"
    broken = next((p for p in case.comparison.losses if _broken(p)), None)
    first = case.first
    at_first = first is not None and any(t.nonfinite_differs for t in first.outputs)
    if broken is None and not at_first:
        return Answer(question=question, answer="No.", state="fine")
    if first is not None and not at_first:
        said = f"Yes, but the runs differ before, at {first.name}: NaN and Inf are a consequence."
        return Answer(question=question, answer=said, state="attention", evidence=_loss_words(broken))
    where = (
        f"first in {first.name}, {place(first)}" if first is not None else "only in the loss, as far as was recorded"
    )
    if case.origin is not None:
        where = case.origin.message
    return _ends(question, f"Yes: {where}", _loss_words(broken), "nonfinite")


def _broken(pair: LossPair) -> bool:
    known = pair.reference is not None and pair.target is not None
    return known and math.isfinite(pair.reference or 0.0) != math.isfinite(pair.target or 0.0)


def first_loss(case: Case) -> Answer:
    """Ask whether the first loss agrees; if not, the forward pass is at fault."""
    question = "Does the loss of the first common step agree?"
    pairs = [pair for pair in case.comparison.losses if pair.agrees is not None]
    first = case.first
    in_forward = first is not None and first.phase == "forward" and first.kind != "parameter"
    earliest = first is not None and in_forward and (not pairs or first.step <= pairs[0].step)
    if pairs and pairs[0].agrees is False:
        if first is None:
            return _ends(
                question,
                "No, and no recorded operator shows why: the cause was not recorded.",
                _loss_words(pairs[0]),
                "not recorded",
            )
        phase: Cause = "forward" if in_forward else "backward" if first.phase == "backward" else "optimizer"
        return _ends(
            question,
            f"No: the {phase} pass differs, first at {first.name} in {place(first)}.",
            _figures(first, pairs[0]),
            phase,
        )
    if earliest and first is not None:
        loss = "The loss agrees within its tolerance" if pairs else "No loss was recorded"
        return _ends(
            question,
            f"{loss}, but the forward pass differs already, first at {first.name} in {place(first)}.",
            _figures(first, pairs[0] if pairs else None),
            "forward",
        )
    if not pairs:
        return Answer(question=question, answer="No loss was recorded on both sides.", state="unknown")
    return Answer(
        question=question, answer="Yes: the forward pass agrees.", state="fine", evidence=_loss_words(pairs[0])
    )


def gradients(case: Case) -> Answer:
    """Ask whether the gradients that the optimizer reads agree; if not, the backward pass is at fault."""
    question = "Do the gradients that the optimizer reads agree?"
    first = case.first
    curve = _point(case)
    words = _curve_words(curve)
    if first is not None and first.phase == "backward":
        return _ends(
            question,
            f"No: the backward pass differs, first at {first.name} in {place(first)}.",
            words or _figures(first, None),
            "backward",
        )
    if first is not None and first.kind == "parameter" and any(t.name == "input.grad" for t in first.outputs):
        return _ends(question, f"No, first that of {first.name} in {place(first)}.", words, "backward")
    if curve is None or curve.gradient_error is None:
        return Answer(
            question=question,
            answer="Gradients were not recorded (`parameter` rows, or the level op).",
            state="unknown",
        )
    if (
        first is None
        and first_disagreement(case.comparison.losses) is not None
        and curve.gradient_error > GRADIENTS_AGREE
    ):
        said = (
            f"No: they differ by {number(curve.gradient_error)} in step {curve.step}, most in {curve.worst_gradient}."
        )
        return _ends(question, said, words, "backward")
    return Answer(question=question, answer="Yes.", state="fine", evidence=words)


def optimizer(case: Case) -> Answer | None:
    """Ask whether the parameters agree after the step; if not, the optimizer is at fault."""
    question = "Do the parameters agree after the optimizer's step?"
    first = case.first
    curve = _point(case)
    words = _curve_words(curve)
    if first is not None and (first.phase == "optimizer" or first.kind in ("optimizer", "parameter")):
        called = f", called with {', '.join(map(str, first.arguments))}" if first.arguments else ""
        return _ends(
            question,
            f"No: {first.name} gives different parameters in step {first.step}{called}.",
            words or _figures(first, None),
            "optimizer",
        )
    if curve is None or curve.parameter_error is None:
        return Answer(question=question, answer="Parameters were not recorded.", state="unknown")
    return Answer(question=question, answer="Yes, as far as rounding explains.", state="fine", evidence=words)


def later_losses(case: Case) -> Answer:
    """Ask whether the later losses agree, when nothing else has been found."""
    question = "Do the later losses agree?"
    first = case.first
    if first is not None:
        cause: Cause = (
            "forward" if first.phase == "forward" else "backward" if first.phase == "backward" else "optimizer"
        )
        said = f"Step {first.step} differs first at {first.name} in {place(first)}, though the steps before agree."
        return _ends(question, said, _figures(first, None), cause)
    pair = first_disagreement(case.comparison.losses)
    if pair is not None:
        said = f"No, from step {pair.step} on, and no recorded operator shows why: the cause was not recorded."
        return _ends(question, said, _loss_words(pair), "not recorded")
    known = [p for p in case.comparison.losses if p.agrees]
    said = "Yes: the runs agree." if known else "No loss was recorded; the operators agree."
    return Answer(question=question, answer=said, state="fine", cause="none")


QUESTIONS: tuple[Callable[[Case], Answer | None], ...] = (
    comparable,
    settings,
    structure,
    data,
    parameters,
    random_numbers,
    ranks,
    updates,
    nonfinite,
    first_loss,
    gradients,
    optimizer,
    later_losses,
)


def _ends(question: str, answer: str, evidence: str, cause: Cause) -> Answer:
    return Answer(question=question, answer=answer, state="failed", evidence=evidence, cause=cause)


def _point(case: Case) -> StepCurve | None:
    """Return the curve's point at the first divergence, or at the first step."""
    step = case.first.step if case.first is not None else None
    return next((point for point in case.curves if step is None or point.step == step), None)


def _curve_words(curve: StepCurve | None) -> str:
    if curve is None or curve.gradient_error is None:
        return ""
    words = (
        f"step {curve.step}: gradient norm {number(curve.reference_norm, 6)} / {number(curve.target_norm, 6)}, "
        f"difference {number(curve.gradient_error)} of it"
    )
    if curve.parameter_error is not None:
        words += f"; parameters after the step differ by {number(curve.parameter_error)}"
    return words


def _loss_words(pair: LossPair | None) -> str:
    if pair is None:
        return ""
    error = f", relative difference {number(pair.error, 2)}" if pair.error is not None else ""
    tolerance = f" at a tolerance of {number(pair.tolerance, 2)}" if pair.error is not None else ""
    return f"step {pair.step}: loss {number(pair.reference, 7)} / {number(pair.target, 7)}{error}{tolerance}"


def _figures(first: OperatorDiff, pair: LossPair | None) -> str:
    figure = f"error {number(first.error)}, {times_noise(first)}" if first.error is not None else ""
    return "; ".join(part for part in (figure, _loss_words(pair)) if part)
