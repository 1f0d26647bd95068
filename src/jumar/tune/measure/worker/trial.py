"""What a child does: rebuild the call, check the candidate's outputs, time it against the incumbent."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from jumar.tune.measure.worker.agreement import Judge
from jumar.tune.measure.worker.case import Case
from jumar.tune.measure.worker.devices import Busy, Cpu
from jumar.tune.measure.worker.messages import NO_ROOM, Outcome, Phase, Trial
from jumar.tune.measure.worker.reference import Agreement, worst
from jumar.tune.model.errors import TuneError
from jumar.tune.model.task import Function
from jumar.tune.providers import apply_stack
from jumar.tune.providers.base import Provider

NUM_INPUTS = 3
"""Different inputs on which outputs are compared before timing; the second one again after it, in the same memory."""
_MEMORY_WORDS = ("can't allocate memory", "DefaultCPUAllocator", "not enough memory", "bad_alloc", "out of memory")
_FULL = (errno.ENOSPC, errno.EDQUOT)
_FULL_WORDS = ("No space left on device", "Disk quota exceeded")


def run_trial(
    trial: Trial,
    providers: Sequence[Provider],
    on_phase: Callable[[Phase], None],
    folder: Path,
    device: Cpu | None = None,
) -> Outcome:
    """Carry out a trial in this process, on its CPU or `device`, which may fill `folder`; never raises an Exception."""
    torch.set_num_threads(trial.num_threads)
    phase: Phase = "task"

    def enter(next_phase: Phase) -> None:
        nonlocal phase
        phase = next_phase
        on_phase(next_phase)

    try:
        with torch.no_grad():
            return _run(trial, providers, enter, folder, device or Cpu())
    except Exception as error:  # noqa: BLE001 - a provider may raise anything; it becomes the candidate's outcome
        return _failure(error, phase)


def _run(
    trial: Trial, providers: Sequence[Provider], enter: Callable[[Phase], None], folder: Path, device: Cpu
) -> Outcome:
    enter("task")
    case = Case(trial.task, data=trial.data, seed=trial.seed, error_budget=trial.error_budget, device=device)
    case.try_out()
    if trial.build_only:
        return _build(trial, providers, enter, case, folder)
    site = case.site(folder / "incumbent", trial.num_threads)
    incumbent = apply_stack(trial.incumbent, case.function, site, providers)
    enter("candidate")
    site = case.site(folder / "candidate", trial.num_threads)
    candidate = apply_stack(trial.candidate, case.function, site, providers)
    judge = case.judge(_comparable(trial, providers, case, folder) if case.draws else candidate, trial.candidate)
    agreement = _agrees(trial, case, judge)
    if agreement.detail:
        return _disagrees(agreement)
    enter("measure")
    try:
        gain = device.gain(case.calling(incumbent), case.calling(candidate), trial)
    except Busy as error:
        return Outcome(status="busy", phase="measure", detail=str(error))
    case.fill(trial.seed + 1)
    after = judge.compare()
    if after.detail:
        return _disagrees(after, " (after timing, on other values in the same memory)")
    return Outcome(
        status="measured",
        phase="measure",
        gain=gain,
        worst_error=max(agreement.worst_error, after.worst_error),
        allowed_error=agreement.allowed_error,
    )


def _comparable(trial: Trial, providers: Sequence[Provider], case: Case, folder: Path) -> Function:
    """Return the candidate with random numbers that PyTorch draws, which are the same in every engine.

    It is compared in place of the candidate, whose own numbers are as good but others, and which is timed.
    """
    site = case.site(folder / "compared", trial.num_threads, draws_as_eager=True)
    return apply_stack(trial.candidate, case.function, site, providers)


def _build(
    trial: Trial, providers: Sequence[Provider], enter: Callable[[Phase], None], case: Case, folder: Path
) -> Outcome:
    enter("candidate")
    site = case.site(folder / "candidate", trial.num_threads)
    case.calling(apply_stack(trial.candidate, case.function, site, providers))()
    return Outcome(status="built", phase="candidate")


def _agrees(trial: Trial, case: Case, judge: Judge) -> Agreement:
    """Compare on `NUM_INPUTS` sets of values, of which the first is put back; stop at a disagreement."""
    agreement = judge.compare()
    for number in range(1, NUM_INPUTS):
        if agreement.detail:
            return agreement
        case.fill(trial.seed + number)
        agreement = worst([agreement, judge.compare()])
    case.fill()
    return agreement


def _disagrees(agreement: Agreement, when: str = "") -> Outcome:
    return Outcome(
        status="disagrees",
        phase="candidate",
        detail=agreement.detail + when,
        worst_error=agreement.worst_error,
        allowed_error=agreement.allowed_error,
    )


def _failure(error: Exception, phase: Phase) -> Outcome:
    is_ours = isinstance(error, TuneError)
    detail = (str(error) if is_ours else f"{type(error).__name__}: {_reason(error)}").strip().splitlines()[0][:500]
    if isinstance(error, MemoryError) or any(word in str(error) for word in _MEMORY_WORDS):
        return Outcome(status="memory", phase=phase, detail=detail)
    if any(_says_full(one) for one in _causes(error)):
        return Outcome(status="busy", phase="measure", detail=f"{NO_ROOM}: {detail}")
    if phase == "task":
        return Outcome(status="task-failed", phase=phase, detail=detail)
    return Outcome(status="failed", phase=phase, detail=detail, is_refusal=is_ours)


def _reason(error: Exception) -> str:
    """Return what an error says; of an NPU's, whose first line has a number, the last line that has the reason."""
    text = str(error)
    if "NPU function error" not in text:
        return text
    told = [line.strip() for line in text.splitlines() if "AclNN_" in line or line.startswith("aten::")]
    return told[-1] if told else text


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that led to it: compilers wrap what the system said."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _says_full(error: BaseException) -> bool:
    """Tell whether an error says that a disk is full, which says nothing of a candidate."""
    is_full = isinstance(error, OSError) and error.errno in _FULL
    return is_full or any(words in str(error) for words in _FULL_WORDS)
