"""What a child does: rebuild the call, check the candidate's outputs, time it against the incumbent.

`Case` is what it measures on: the work with its weights and inputs.
"""

from __future__ import annotations

import errno
import math
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from jumar.base.files import write_atomically
from jumar.base.findings import Json
from jumar.tune.engines.base import Site
from jumar.tune.graph import Graph
from jumar.tune.graph.graph import Work
from jumar.tune.graph.inputs import (
    NOT_FINITE,
    REAL_SEED,
    Values,
    make_constants,
    make_inputs,
    put_not_finite,
    refill,
    repeated,
)
from jumar.tune.graph.operators import draws, function_of
from jumar.tune.measure.worker.agreement import Judge, outputs_of
from jumar.tune.measure.worker.devices import Busy, Cpu
from jumar.tune.measure.worker.messages import NO_ROOM, Outcome, Phase, Trial
from jumar.tune.measure.worker.reference import Agreement, Expected, Rule, widening_of, worst
from jumar.tune.model.errors import TuneError
from jumar.tune.model.task import Function, Stack
from jumar.tune.providers import apply_stack
from jumar.tune.providers.base import Provider


class Case:
    """The work of a trial. `tensors` are its variable inputs on the CPU, the real ones at first."""

    def __init__(
        self,
        work: Work,
        *,
        data: str = "",
        seed: int = REAL_SEED,
        error_budget: float | None = None,
        device: Cpu | None = None,
    ) -> None:
        """Read the data file, if there is one; compute on `device`. Raises TuneError for a file that cannot be read."""
        self.work = work
        self._values: Values = _load(data) if data else {}
        self._first_seed = REAL_SEED if self._values else seed
        self._error_budget = error_budget
        self._seed = self._first_seed
        self._device = device or Cpu()
        self._recall = Recall(Path(data), f"{work.key} {self._device.name}") if data else None
        self.constants = make_constants(work, self._values)
        self.tensors = make_inputs(work, self._first_seed, self._values)
        placed = {place: self._device.place(tensor) for place, tensor in self.constants.items()}
        self.function: Function = function_of(self._device.work(work), placed)
        """The work as PyTorch runs it, of tensors on the device."""
        self.plain: Function = self._device.hosted(self.function)
        """The same of the CPU's tensors."""

    def site(self, folder: Path, num_threads: int, *, draws_as_eager: bool = False) -> Site:
        """Return where a candidate is built; its folder is made."""
        folder.mkdir(parents=True, exist_ok=True)
        example = make_inputs(self.work, self._first_seed, self._values)
        site = Site(
            graph=self._graph(example),
            constants=self.constants,
            example=example,
            folder=folder,
            num_threads=num_threads,
            draws_as_eager=draws_as_eager,
        )
        return self._device.site(site)

    @property
    def draws(self) -> bool:
        """Whether the work draws random numbers."""
        return isinstance(self.work, Graph) and draws(self.work)

    def fill(self, seed: int | None = None) -> None:
        """Give the inputs other values; None: the first ones, which are the real ones where there are some."""
        self._seed = self._first_seed if seed is None else seed
        refill(self.tensors, self.work, self._seed, self._values)

    def spoil(self, kind: str) -> bool:
        """Put `NaN`, or `Inf` and -Inf, among the inputs' floating-point numbers; tell whether there were any."""
        floating = [one for one in self.tensors if one.is_floating_point() and one.numel()]
        for tensor in floating:
            put_not_finite(tensor, kind)
        return bool(floating)

    def calling(self, function: Function) -> Callable[[], Any]:
        """Return a call of `function` on the inputs, to be measured again and again."""
        return repeated(function, list(map(self._device.place, self.tensors)), written_inputs(self.work))

    def try_out(self) -> None:
        """Run the work once, which raises where it cannot be run; the inputs are as they were afterwards."""
        if self._recall is None or not self._recall.knows(self._seed):
            self.plain(*self.tensors)
            self.fill()

    def judge(self, candidate: Function, stack: Stack) -> Judge:
        """Return what compares `candidate`, made by `stack`, with the work as PyTorch runs it."""
        rule = Rule(
            expected=self._expected,
            exact=widening_of(self.work, self.constants),
            error_budget=self._error_budget,
            num_operators=len(self.work.nodes) if isinstance(self.work, Graph) else 1,
            written=written_inputs(self.work),
            num_gradients=len(self.work.gradients) if isinstance(self.work, Graph) else 0,
            may_reuse=any(_reuses(dict(policy.settings)) for policy in stack),
        )
        return Judge(self.plain, self._device.hosted(candidate), self.tensors, rule)

    def _expected(self, compute: Callable[[], Expected]) -> Expected:
        return compute() if self._recall is None else self._recall.expected(self._seed, compute)

    def _graph(self, example: Sequence[torch.Tensor]) -> Graph:
        from jumar.tune.graph.operators import graph_of

        if isinstance(self.work, Graph):
            return self.work
        return graph_of(self.work, outputs_of(self.plain(*example)))


def written_inputs(work: Work) -> list[int]:
    """Return the places, among the variable inputs, of those that a call writes to."""
    if not isinstance(work, Graph):
        return []
    variables = {value: place for place, value in enumerate(work.variables)}
    nodes = (work.producer(value) for value in work.effects)
    written = [next(node.references()) for node in nodes if node is not None]
    return [variables[value] for value in dict.fromkeys(written)]


def size_bytes(work: Work) -> int:
    """Return how much memory all tensors of the work take that are known beforehand."""
    specs: list[Any] = list(work.tensors.values())
    if isinstance(work, Graph):
        specs += [spec for spec in work.values if spec is not None]
    return sum(math.prod(spec.shape) * getattr(torch, spec.dtype).itemsize for spec in specs)


def _load(path: str) -> Mapping[int, torch.Tensor]:
    from jumar.tune.graph.capture.data import load

    return load(Path(path))


def _reuses(settings: Json) -> bool:
    """Tell whether settings, or settings within them, say that outputs share their memory from call to call."""
    if isinstance(settings, dict):
        return settings.get("reuse") is True or any(map(_reuses, settings.values()))
    return isinstance(settings, Sequence) and not isinstance(settings, str) and any(map(_reuses, settings))


KEPT_BYTES = 64 << 20
"""Outputs that take more are computed again each time."""


class Recall:
    """What is expected for the inputs of each seed. Safe to use in several processes at once."""

    def __init__(self, data: Path, key: str) -> None:
        """`data` is the graph's data file, `key` the graph's; what was kept for other ones is not used."""
        found = data.stat()
        self._data = data
        self._stamp = f"{key} {found.st_size} {found.st_mtime_ns} {torch.__version__}"

    def expected(self, seed: int, compute: Callable[[], Expected]) -> Expected:
        """Return what is expected for a seed; `compute` is called when it is not kept."""
        path = self._path(seed)
        kept = self._read(path)
        if kept is not None:
            return kept
        made = compute()
        self._write(path, made)
        return made

    def knows(self, seed: int) -> bool:
        """Tell whether something is kept for a seed (which may turn out to be of other weights)."""
        return self._path(seed).exists()

    def _path(self, seed: int) -> Path:
        return self._data.with_name(f"{self._data.name}.expected-{seed}")

    def _read(self, path: Path) -> Expected | None:
        try:
            found = torch.load(path, weights_only=True)
            return Expected(found["default"], found["reference"]) if found["stamp"] == self._stamp else None
        except (OSError, RuntimeError, EOFError, ValueError, KeyError, TypeError, pickle.UnpicklingError):
            return None

    def _write(self, path: Path, made: Expected) -> None:
        tensors = [one for one in (*made.default, *made.reference) if one is not None]
        if sum(one.untyped_storage().nbytes() for one in tensors) > KEPT_BYTES:
            return
        kept = {"stamp": self._stamp, "default": list(made.default), "reference": list(made.reference)}
        with suppress(OSError, RuntimeError):  # a full disk
            write_atomically(path, lambda part: torch.save(kept, part))


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
        differs_on=_differs_on(case, judge, trial.seed + 1),
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


def _differs_on(case: Case, judge: Judge, seed: int) -> tuple[str, ...]:
    """Return on which numbers that are not finite the candidate's outputs are others than PyTorch's."""
    found = []
    for kind in NOT_FINITE if not case.draws else ():
        case.fill(seed)
        if case.spoil(kind) and not judge.agrees_on_not_finite():
            found.append(kind)
    return tuple(found)


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
    """Tell whether an error says that a disk is full, which does not judge the candidate."""
    is_full = isinstance(error, OSError) and error.errno in _FULL
    return is_full or any(words in str(error) for words in _FULL_WORDS)
