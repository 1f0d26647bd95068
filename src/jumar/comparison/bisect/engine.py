"""Finds which operators open the gap between two runs: `bisect`."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from jumar.base.errors import UsageError
from jumar.base.text import listing
from jumar.comparison.bisect import runs
from jumar.comparison.bisect.answer import Evidence, conclude
from jumar.comparison.bisect.results import Bisection, Trial
from jumar.comparison.bisect.runs import Program
from jumar.comparison.bisect.state import State
from jumar.comparison.bisect.units import How, Intervention, Over, Unit, matching
from jumar.device import DevicePlan
from jumar.recording import Recording

ENOUGH = 0.9
"""Share of what all units together close that a set must close to count as the cause."""

Progress = Callable[[int, str], None]
"""Told the number of runs made and what is tried now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a bisection is asked. `reference` is a recording, or the device to run the script on for it."""

    device: DevicePlan
    reference: DevicePlan | Path | None
    """None with a check."""
    how: How = "float32"
    over: Over = "both"
    operators: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    check: tuple[str, ...] = ()
    """A command that tells by exit code 0 that a run is good; `{recording}` in it is the run's recording."""
    search: bool = True
    """False switches all chosen units at once and looks no further."""
    enough: float = ENOUGH
    max_runs: int = 60


def bisect(
    program: Program, question: Question, *, force: bool = False, on_progress: Progress | None = None
) -> Bisection:
    """Return the smallest set of operators found whose calculation in another precision closes the loss gap.

    The script runs once for the reference, once as it is, once with all units switched and then as often as the
    search needs. Runs that an earlier, stopped bisection of the same question made are taken from its file.
    Raises ScriptError when a run fails, UsageError when nothing can be switched, OutputError and InputError as
    `State` does.
    """
    state = State(program.folder, _asked(program, question), force=force)
    search = _Search(program, question, state, on_progress or (lambda _runs, _what: None))
    return search.answer()


def _asked(program: Program, question: Question) -> dict[str, object]:
    return {
        "script": str(program.script.absolute()),
        "arguments": list(program.arguments),
        "steps": program.num_steps,
        "device": question.device.to_environment(),
        "reference": str(question.reference),
        "how": question.how,
        "check": list(question.check),
    }


class _Search:
    def __init__(self, program: Program, question: Question, state: State, progress: Progress) -> None:
        self._program = program
        self._question = question
        self._state = state
        self._progress = progress
        self._num_new = 0
        self._gap = 0.0

    def answer(self) -> Bisection:
        """Make the runs and draw the answer."""
        reference = self._reference()
        before = self._before()
        units = matching(self._units(), self._question.operators, self._question.modules)
        if not units:
            raise UsageError("no operator of the run can be switched, or none matches. Leave out --ops and --modules.")
        gap = self._gap = loss_gap(reference, before)
        whole: Trial | None = None
        best: Trial | None = None
        chosen, minimal = units, True
        if gap > 0 or self._question.check:
            whole = best = self._trial(units, "all at once")
            if self._question.search and whole.closed > 0:
                chosen, minimal = self._smallest(units, self._question.enough * whole.closed)
                best = self._state.get(chosen) or whole
        return conclude(
            Evidence(
                how=self._question.how,
                units=tuple(chosen),
                best=best,
                whole=whole,
                reference=reference,
                before=before,
                gap=gap,
                num_units=len(units),
                num_runs=len(self._state),
                minimal=minimal,
                checked=bool(self._question.check),
            )
        )

    def _smallest(self, units: Sequence[Unit], wanted: float) -> tuple[list[Unit], bool]:
        """Search over operators, then over modules within those found, then over single units."""
        left, certain = list(units), True
        levels: list[Callable[[Unit], str]] = []
        if self._question.over in ("both", "operators"):
            levels.append(lambda unit: unit.operator)
        if self._question.over in ("both", "modules"):
            levels.append(lambda unit: unit.module_path)
        if self._question.over == "both":
            levels.append(str)
        for level in levels:
            groups: dict[str, list[Unit]] = {}
            for unit in left:
                groups.setdefault(level(unit), []).append(unit)

            def test(names: Sequence[str], groups: Mapping[str, list[Unit]] = groups) -> bool:
                chosen = [unit for name in names for unit in groups[name]]
                return self._trial(chosen, listing(names)).closed >= wanted

            names, sure = smallest(list(groups), test)
            left = [unit for name in names for unit in groups[name]]
            certain &= sure
        return left, certain

    def _reference(self) -> dict[int, float]:
        source = self._question.reference
        if source is None:
            return {}
        if isinstance(source, Path):
            losses = dict(Recording.open(source).losses())
            return {step: loss for step, loss in losses.items() if step < self._program.num_steps}
        return self._kept("reference", lambda: runs.run(self._program, source, "reference", None).losses)

    def _before(self) -> dict[int, float]:
        def first() -> dict[int, float]:
            outcome = runs.run(self._program, self._question.device, "before", None, operators=True)
            self._state.facts["units"] = [list(unit) for unit in runs.units_of(outcome.recording)]
            return outcome.losses

        return self._kept("before", first)

    def _kept(self, name: str, make: Callable[[], dict[int, float]]) -> dict[int, float]:
        known = self._state.facts.get(name)
        if known is None:
            self._progress(self._num_new, name)
            known = make()
            self._num_new += 1
            self._state.facts[name] = {str(step): loss for step, loss in known.items()}
            self._state.save()
        return {int(step): float(loss) for step, loss in known.items()}

    def _units(self) -> list[Unit]:
        return [Unit(*item) for item in self._state.facts.get("units", [])]

    def _trial(self, units: Sequence[Unit], what: str) -> Trial:
        """Run with these units switched, unless that was done before. Raises OutOfRuns."""
        known = self._state.get(units)
        if known is not None:
            return known
        if self._num_new >= self._question.max_runs:
            raise OutOfRuns
        self._progress(self._num_new, what)
        intervention = Intervention(units=frozenset(units), how=self._question.how)
        outcome = runs.run(self._program, self._question.device, "trial", intervention)
        self._num_new += 1
        trial = Trial(
            units=frozenset(units),
            losses=outcome.losses,
            closed=self._closed(outcome),
            switched=outcome.switched,
            failed=outcome.failed,
        )
        self._state.add(trial)
        return trial

    def _closed(self, outcome: runs.Outcome) -> float:
        if self._question.check:
            return float(runs.check(self._question.check, outcome.recording, self._program.cwd))
        after = loss_gap(self._reference(), outcome.losses)
        return 1.0 - after / self._gap if self._gap else 0.0


def loss_gap(reference: Mapping[int, float], target: Mapping[int, float]) -> float:
    """Return the root mean square of the differences of the losses over the common steps; 0 without any.

    A loss that is not finite on one side only differs by its whole size, and by 1 at least.
    """
    squares = []
    for step in reference.keys() & target.keys():
        of_reference, of_target = reference[step], target[step]
        if math.isfinite(of_reference) and math.isfinite(of_target):
            squares.append((of_target - of_reference) ** 2)
        else:
            known = of_reference if math.isfinite(of_reference) else of_target
            squares.append(
                0.0 if str(of_reference) == str(of_target) else max(1.0, known * known if math.isfinite(known) else 1.0)
            )
    return math.sqrt(sum(squares) / len(squares)) if squares else 0.0


T = TypeVar("T", bound=Hashable)


class OutOfRuns(Exception):
    """Raised when the allowed runs are used up."""


def smallest(items: Sequence[T], test: Callable[[Sequence[T]], bool]) -> tuple[list[T], bool]:
    """Return a subset that passes `test` and of which no single item can be left out, and whether that is certain.

    `items` as a whole passes. When `test` raises OutOfRuns, the best subset so far is returned.
    """
    left = list(items)
    parts = 2
    try:
        while len(left) > 1:
            chunks = _split(left, parts)
            found = next((chunk for chunk in chunks if test(chunk)), None)
            if found is not None:
                left, parts = found, 2
                continue
            rests = [[item for item in left if item not in chunk] for chunk in chunks] if parts > 2 else []
            found = next((rest for rest in rests if test(rest)), None)
            if found is not None:
                left, parts = found, max(parts - 1, 2)
            elif parts >= len(left):
                break
            else:
                parts = min(len(left), 2 * parts)
    except OutOfRuns:
        return left, False
    return left, True


def _split(items: Sequence[T], parts: int) -> list[list[T]]:
    size, extra = divmod(len(items), parts)
    chunks: list[list[T]] = []
    start = 0
    for index in range(parts):
        end = start + size + (index < extra)
        chunks.append(list(items[start:end]))
        start = end
    return chunks
