"""`advise`: every rule over one rank of a recording, in one pass, and the answer in order of benefit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from jumar.device.soc import get_soc
from jumar.errors import DeviceError, JumarError, RecordingError
from jumar.findings import Finding, Severity
from jumar.performance.advice import Advice, NotChecked, StepSummary
from jumar.performance.checker import Checker, Priced, Result
from jumar.performance.rules import CHECKERS
from jumar.performance.setup import without_setup
from jumar.performance.subject import StepView, Subject, SupportLookup, Totals, find_accelerator
from jumar.performance.summary import OperatorTable, summarise_step
from jumar.recording import CallRow, Recording

DEFAULT_SOC = "Ascend910B1"

LoadSupport = Callable[[str, str], SupportLookup]
"""(SoC as the user or the recording names it, PyTorch version of the recording) to its tables."""


def advise(
    recording: str | Path | Recording,
    *,
    soc: str | None = None,
    rank: int | None = None,
    load_support: LoadSupport | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Advice:
    """Return the bottlenecks of one rank of a recording, most useful first.

    `soc` defaults to the recording's, then to Ascend910B1; `rank` to the lowest that left a step.
    `on_progress(done, total)` is called after each step. `load_support` replaces the device tables.
    Memory does not grow with the number of steps. Raises RecordingError for a missing, foreign or
    newer recording or an absent rank, DeviceError for an unknown SoC.
    """
    source = recording if isinstance(recording, Recording) else Recording.open(recording)
    chosen = _choose_rank(source, rank)
    accelerator = _accelerator(source, chosen)
    subject = _subject(source, soc or source.info.soc or DEFAULT_SOC, accelerator, load_support or _packaged_support)
    checkers = [checker(subject) for checker in CHECKERS]
    totals, table, steps = _observe(source, chosen, subject, checkers, on_progress)
    results = _results(checkers, totals)
    return Advice(
        recording=str(source.path),
        device=source.info.device,
        soc=subject.soc.name,
        rank=chosen,
        num_steps=totals.num_steps,
        findings=_in_order([found for _, result in results for found in result.findings], subject),
        operators=table.rows(totals, _status_reader(subject)),
        steps=steps,
        not_checked=(*_not_checked(results), *_not_recorded(source, chosen), *_other_ranks(source, chosen)),
        checked=tuple(checker.rule.code for checker, result in results if result.ran),
        warnings=tuple(source.warnings),
    )


def _choose_rank(source: Recording, rank: int | None) -> int:
    with_steps = [number for number in source.ranks if source.steps(number)]
    if rank is None:
        return with_steps[0] if with_steps else 0
    if rank not in source.ranks:
        known = ", ".join(map(str, source.ranks)) or "none"
        raise RecordingError(f"{source.path} must have rank {rank}; it has {known}. Choose one of these with --rank.")
    return rank


def _accelerator(source: Recording, rank: int) -> str:
    rows = source.rows(source.steps(rank)[0], rank) if source.steps(rank) else ()
    return find_accelerator(source.info.device, rows)


def _subject(source: Recording, soc: str, accelerator: str, load: LoadSupport) -> Subject:
    profile = get_soc(soc)
    try:
        return Subject(soc=profile, accelerator=accelerator, support=load(soc, source.info.torch_version))
    except JumarError as error:
        return Subject(soc=profile, accelerator=accelerator, support_error=str(error))


def _packaged_support(soc: str, torch_version: str) -> SupportLookup:
    """Return the packaged tables for the recording's PyTorch, or the newest where they do not cover it."""
    from jumar.device.support import SupportTables, known_versions

    try:
        return SupportTables.load(soc, torch_version)
    except DeviceError:
        return SupportTables.load(soc, known_versions()[-1])


def _observe(
    source: Recording,
    rank: int,
    subject: Subject,
    checkers: Sequence[Checker],
    on_progress: Callable[[int, int], None] | None,
) -> tuple[Totals, OperatorTable, tuple[StepSummary, ...]]:
    totals, table = Totals(), OperatorTable()
    summaries: list[StepSummary] = []
    numbers = source.steps(rank)
    for done, number in enumerate(numbers, start=1):
        step = StepView.build(number, _rows(source, rank, number, numbers))
        totals.add(step)
        table.observe(step)
        summaries.append(summarise_step(step, subject))
        for checker in checkers:
            checker.observe(step)
        if on_progress is not None:
            on_progress(done, len(numbers))
    return totals, table, tuple(summaries)


def _rows(source: Recording, rank: int, number: int, numbers: Sequence[int]) -> list[CallRow]:
    rows = source.rows(number, rank)
    if number == 0 and len(numbers) > 1:
        return without_setup(rows, source.rows(numbers[1], rank))
    return rows


def _results(checkers: Sequence[Checker], totals: Totals) -> list[tuple[Checker, Result]]:
    """Return each rule's answer; without operator rows no rule ran, whatever it would say."""
    if totals.num_calls:
        return [(checker, checker.result(totals)) for checker in checkers]
    reason = (
        "the recording has no complete step." if not totals.num_steps
        else "the recording has no operator rows; record with --level module,op."
    )  # fmt: skip
    return [(checker, Result(not_checked=(reason,), ran=False)) for checker in checkers]


def _not_checked(results: Sequence[tuple[Checker, Result]]) -> list[NotChecked]:
    return [
        NotChecked(code=checker.rule.code, name=checker.rule.name, reason=reason)
        for checker, result in results
        for reason in result.not_checked
    ]


def _not_recorded(source: Recording, rank: int) -> list[NotChecked]:
    """Return what the observer itself could not see, e.g. the inside of a compiled model."""
    end = source.ends.get(rank)
    sentences = () if end is None else end.not_covered
    return [NotChecked(code="", name="not recorded", reason=sentence) for sentence in sentences]


def _other_ranks(source: Recording, rank: int) -> list[NotChecked]:
    others = [number for number in source.ranks if number != rank]
    if not others:
        return []
    listed = ", ".join(map(str, others))
    reason = f"only rank {rank} was looked at; give --rank for another ({listed})."
    return [NotChecked(code="", name="other ranks", reason=reason)]


def _in_order(found: Sequence[Priced], subject: Subject) -> tuple[Finding, ...]:
    """Return the findings, those that are only information last, and within that the costliest first."""

    def estimate(priced: Priced) -> float:
        return priced.cost.estimate_us(subject.soc, compiles_online=subject.compiles_online)

    ordered = sorted(found, key=lambda priced: (priced.finding.severity <= Severity.INFO, -estimate(priced)))
    return tuple(_with_estimate(priced.finding, estimate(priced)) for priced in ordered)


def _with_estimate(finding: Finding, estimate_us: float) -> Finding:
    return replace(finding, evidence={**finding.evidence, "estimated_per_step_us": round(estimate_us, 1)})


def _status_reader(subject: Subject) -> Callable[[str], str]:
    support = subject.support

    def status(name: str) -> str:
        return "" if support is None else support.operator(name).status

    return status
