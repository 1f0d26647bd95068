"""`advise`: every rule over one rank of a recording, in one pass, and the answer in order of benefit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from queue import Queue

from jumar.advise.bottlenecks.advice import Advice, StepSummary
from jumar.advise.bottlenecks.run import PRICE, Run, StepView, SupportLookup, find_accelerator
from jumar.advise.bottlenecks.summary import OperatorTable, summarise_step
from jumar.advise.checks import NotChecked, Outcomes, codes_checked, finders, not_checked, split
from jumar.base.errors import DeviceError, JumarError, RecordingError
from jumar.base.findings import Finding, Severity
from jumar.recording import CallRow, Recording
from jumar.soc import DEFAULT_SOC
from jumar.soc.profiles import get_soc

RULES = "advise.bottlenecks"

LoadSupport = Callable[[str, str], SupportLookup]
"""(SoC as the user or the recording names it, PyTorch version of the recording) to its tables."""
Find = Callable[[Run], Outcomes]


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
    run = _run(source, chosen, soc or source.info.soc or DEFAULT_SOC, load_support or _packaged_support)
    table, summaries = OperatorTable(), list[StepSummary]()

    def steps() -> Iterator[StepView]:
        numbers = source.steps(chosen)
        for done, number in enumerate(numbers, start=1):
            step = StepView.build(number, _rows(source, chosen, number, numbers))
            run.totals.add(step)
            table.observe(step)
            summaries.append(summarise_step(step, run))
            yield step
            if on_progress is not None:
                on_progress(done, len(numbers))

    modules = finders(RULES)
    answers = side_by_side([module.find for module in modules], run, steps())
    if not run.totals.num_calls:
        answers = [[not_checked(module.RULE, _nothing_to_check(run))] for module in modules]
    findings, gaps = split(outcome for answer in answers for outcome in answer)
    return Advice(
        recording=str(source.path),
        device=source.info.device,
        soc=run.soc.name,
        rank=chosen,
        num_steps=run.totals.num_steps,
        findings=in_order(findings),
        operators=table.rows(run.totals, _status_reader(run)),
        steps=tuple(summaries),
        not_checked=(*gaps, *_not_recorded(source, chosen), *_other_ranks(source, chosen)),
        checked=codes_checked(modules, gaps),
        warnings=tuple(source.warnings),
    )


def side_by_side(finds: Sequence[Find], run: Run, steps: Iterable[StepView]) -> list[list[Finding | NotChecked]]:
    """Let all rules go through `steps` together and return the answer of each; every step is read once.

    Each rule runs in a thread of its own and waits for the next step, so few steps are in memory at a time.
    """
    queues = [Queue[StepView | None](maxsize=1) for _ in finds]

    def answer(find: Find, queue: Queue[StepView | None]) -> list[Finding | NotChecked]:
        own = iter(queue.get, None)
        try:
            return list(find(replace(run, steps=own)))
        finally:
            for _ in own:  # a rule that ends early must not block the others
                pass

    with ThreadPoolExecutor(max(len(finds), 1)) as pool:
        futures = [pool.submit(answer, find, queue) for find, queue in zip(finds, queues, strict=True)]
        try:
            for step in steps:
                for queue in queues:
                    queue.put(step)
        finally:
            for queue in queues:
                queue.put(None)
        return [future.result() for future in futures]


def _choose_rank(source: Recording, rank: int | None) -> int:
    with_steps = [number for number in source.ranks if source.steps(number)]
    if rank is None:
        return with_steps[0] if with_steps else 0
    if rank not in source.ranks:
        known = ", ".join(map(str, source.ranks)) or "none"
        raise RecordingError(f"{source.path} must have rank {rank}; it has {known}. Choose one of these with --rank.")
    return rank


def _run(source: Recording, rank: int, soc: str, load: LoadSupport) -> Run:
    rows = source.rows(source.steps(rank)[0], rank) if source.steps(rank) else ()
    run = Run(soc=get_soc(soc), accelerator=find_accelerator(source.info.device, rows), info=source.info)
    if source.info.framework != "torch":
        return replace(run, support_error=f"the operator tables are torch_npu's, and this is {source.info.framework}")
    try:
        return replace(run, support=load(soc, source.info.torch_version))
    except JumarError as error:
        return replace(run, support_error=str(error))


def _packaged_support(soc: str, torch_version: str) -> SupportLookup:
    """Return the packaged tables for the recording's PyTorch, or the newest where they do not cover it."""
    from jumar.soc.support import SupportTables, known_versions

    try:
        return SupportTables.load(soc, torch_version)
    except DeviceError:
        return SupportTables.load(soc, known_versions()[-1])


def _rows(source: Recording, rank: int, number: int, numbers: Sequence[int]) -> list[CallRow]:
    rows = source.rows(number, rank)
    if number == 0 and len(numbers) > 1:
        return without_setup(rows, source.rows(numbers[1], rank))
    return rows


def without_setup(first: Sequence[CallRow], second: Sequence[CallRow]) -> list[CallRow]:
    """Return the rows of step 0 without those of set-up (weights drawn, the model moved to the device).

    Set-up is what runs outside modules, before a module is first called, and on a line that does not
    call that operator in the next step. Without module calls nothing is left out.
    """
    start_us = min((row.start_us for row in first if row.phase == "forward" and _in_module(row)), default=0.0)
    again = {_place(row) for row in second}
    return [
        row for row in first if row.kind != "op" or row.module_type or row.start_us >= start_us or _place(row) in again
    ]


def _in_module(row: CallRow) -> bool:
    return row.kind == "module" or bool(row.module_type)


def _place(row: CallRow) -> tuple[str, str, str]:
    return row.phase, row.name, row.source


def _nothing_to_check(run: Run) -> str:
    if not run.totals.num_steps:
        return "the recording has no complete step."
    return "the recording has no operator rows; record with --level module,op."


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


def in_order(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings, those that are only information last, and within that the costliest first."""
    return tuple(sorted(findings, key=lambda item: (item.severity <= Severity.INFO, -_price(item))))


def _price(finding: Finding) -> float:
    price = finding.evidence.get(PRICE, 0.0)
    return float(price) if isinstance(price, int | float) else 0.0


def _status_reader(run: Run) -> Callable[[str], str]:
    support = run.support
    return (lambda _: "") if support is None else (lambda name: support.operator(name).status)
