"""Runs a case and tells how well the answer hit the truth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from jumar.comparison import Comparison, compare
from jumar.comparison.model.kinds import QUERIES, TRANSPORT
from jumar.operators import canonical_name
from jumar.recording import CallRow, Recording

from .faults import Case, Truth
from .ranks import recorded_ranks
from .training import KernelFault, Training, recorded

Outcome = Literal["exact", "near", "missed", "false alarm", "quiet"]
"""`quiet`: a healthy pair of which nothing was said."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of one case."""

    case: str
    model: str
    operator: str
    """Whose kernel is wrong; empty for other faults."""
    values: str
    seed: int
    healthy: bool
    outcome: Outcome
    answer: str
    truth: str
    multiple: float | None


class Runner:
    """Keeps the recordings of references: many cases share one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._references: dict[Training, Recording] = {}

    def multiples(self, case: Case, values: str, seed: int, vary: tuple[str, ...]) -> list[float]:
        """Return the errors of a healthy pair's operators in multiples of the noise floor.

        `vary` says of which further recordings of the reference the floor is measured; empty to estimate it.
        """
        reference = self.reference(case, values, seed)
        training = _training(case, case.reference, values, seed)
        with TemporaryDirectory(dir=self._folder) as folder:
            floors = [recorded(Path(folder) / how, replace(training, vary=how)) for how in vary]
            target = recorded(Path(folder) / "target", _training(case, case.target, values, seed))
            comparison = compare(reference, target, floors=floors)
        return [diff.times_floor for diff in comparison.operators if diff.error and diff.times_floor is not None]

    def reference(self, case: Case, values: str, seed: int) -> Recording:
        training = _training(case, case.reference, values, seed)
        if training not in self._references:
            folder = self._folder / f"reference-{len(self._references)}"
            self._references[training] = _recorded(folder, training)
        return self._references[training]

    def _operators(self, case: Case, values: str, seed: int) -> Recording:
        """Return a recording of the reference's operators, also where the case records none."""
        settings = tuple(setting for setting in case.reference if setting[0] != "levels")
        return self.reference(replace(case, reference=settings), values, seed)

    def run(self, case: Case, values: str, seed: int) -> Result:
        """Record both runs, compare them, and judge the answer."""
        reference = self.reference(case, values, seed)
        truth, below = case.truth, None
        if case.kernel is not None:
            truth, call = _place(self._operators(case, values, seed).rows(0), case)
            below = KernelFault(case.operator, case.kernel, call, case.from_step)
        with TemporaryDirectory(dir=self._folder) as folder:
            target = _recorded(Path(folder) / "target", _training(case, case.target, values, seed), below)
            comparison = compare(reference, target)
            outcome = _healthy(comparison) if case.healthy else _faulty(comparison, truth, reference, target)
        first = comparison.first_divergence
        return Result(
            case=case.name,
            model=case.model,
            operator=case.operator,
            values=values,
            seed=seed,
            healthy=case.healthy,
            outcome=outcome,
            answer=_answer(comparison),
            truth=_told(truth, case.healthy),
            multiple=first.multiple if first is not None else None,
        )


def _recorded(folder: Path, training: Training, below: KernelFault | None = None) -> Recording:
    if training.kind == "gpt, two ranks":
        return recorded_ranks(folder, training.fault or "reduced", training.values, training.seed)
    return recorded(folder, training, below)


def _training(case: Case, settings: tuple[tuple[str, Any], ...], values: str, seed: int) -> Training:
    defaults: dict[str, Any] = {"kind": case.model, "values": values, "seed": seed, "data_seed": seed + 100}
    defaults["num_steps"] = 3 if case.healthy else 2
    return Training(**{**defaults, **dict(settings)})


def _place(rows: list[CallRow], case: Case) -> tuple[Truth, int]:
    """Return the truth of a wrong kernel, and which call of the operator is to be changed."""
    calls = [row for row in rows if row.kind == "op" and row.name == case.operator]
    counted = [number for number, row in enumerate(calls) if row.phase == case.phase]
    call = counted[round(case.share * (len(counted) - 1))]
    row = calls[call]
    if "levels" in dict(case.reference):
        return Truth(path=row.module_path, phase=row.phase, step=case.from_step), call
    at = {"path": row.module_path, "phase": row.phase, "step": case.from_step, "occurrence": row.occurrence}
    return Truth(operators=(row.name,), **at), call


def _healthy(comparison: Comparison) -> Outcome:
    return "quiet" if comparison.status == "agree" else "false alarm"


def _faulty(comparison: Comparison, truth: Truth, reference: Recording, target: Recording) -> Outcome:
    first = comparison.first_divergence
    if truth.code:
        codes = [finding.code for finding in comparison.findings]
        return "exact" if codes[:1] == [truth.code] else "missed" if first is None else "false alarm"
    if first is None:
        return "missed"
    places = (truth.path,) if isinstance(truth.path, str) else truth.path
    names = {first.reference_name, first.target_name} & set(truth.operators)
    at = first.module_path in places and first.phase == truth.phase and first.step == truth.step
    if (names or not truth.operators) and at and truth.occurrence in {None, first.occurrence}:
        return "exact"
    sides = ((target, first.target_seq), (reference, first.reference_seq))
    return "near" if any(_is_near(rec.rows(first.step), seq, truth) for rec, seq in sides) else "false alarm"


def _is_near(rows: list[CallRow], seq: int | None, truth: Truth) -> bool:
    """Return whether no more than one operator that computes lies between what was named and the truth."""
    places = (truth.path,) if isinstance(truth.path, str) else truth.path
    right = [
        row.seq
        for row in rows
        if row.name in truth.operators
        and row.module_path in places
        and row.phase == truth.phase
        and truth.occurrence in {None, row.occurrence}
    ]
    if seq is None or not right:
        return False
    computing = [row.seq for row in rows if row.kind == "op" and canonical_name(row.name) not in TRANSPORT | QUERIES]
    return min(sum(min(seq, at) < other <= max(seq, at) for other in computing) for at in right) <= 1


def _answer(comparison: Comparison) -> str:
    first = comparison.first_divergence
    if first is not None:
        return f"{first.name} in {first.module_path or '-'}, {first.phase} of step {first.step} #{first.occurrence}"
    codes = [finding.code for finding in comparison.findings if finding.severity.name == "ERROR"]
    return f"{comparison.status} {' '.join(codes)}".strip()


def _told(truth: Truth, healthy: bool) -> str:
    if healthy:
        return "agree"
    what = "/".join(truth.operators) or "module"
    later = f" of step {truth.step}" if truth.step else ""
    return truth.code or f"{what} in {truth.path or '-'}, {truth.phase}{later} #{truth.occurrence}"
