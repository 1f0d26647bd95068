"""Whether the runs may have taken other branches: Python's or NumPy's random numbers differ, and were drawn.

PyTorch's own generators are compared operator by operator; what Python decides by a random number leaves nothing but
an operator that one run has and the other has not.
"""

from __future__ import annotations

from jumar.accuracy.diagnosis.rows import Both
from jumar.accuracy.signatures import Hypothesis

SEEDS = {"python": "random.seed", "numpy": "numpy.random.seed"}
"""How each generator is seeded."""
NAMES = {"python": "Python", "numpy": "NumPy"}
POSSIBLE = 0.7


def other_branches(both: Both, step: int, rank: int) -> Hypothesis | None:
    """Return a guess where a generator of the host is in another state after the step, and was used in it.

    Its state before the first step tells nothing: a script seeds its generators within that step. Of the last step
    that was recorded the states before it are compared.
    """
    for at in (step + 1, step):
        if at > 0 and (names := _drawn_and_apart(both, at, rank)):
            seeds = " and ".join(SEEDS[name] for name in names)
            return Hypothesis(
                kind="randomness",
                statement=f"Random numbers of {' and '.join(NAMES[name] for name in names)} differ "
                f"between the runs by step {at}: they may have taken another branch.",
                confirm=f"Call {seeds} with one number in both runs, or set JUMAR_SEED, and compare again.",
                score=POSSIBLE,
                evidence={"generators": list(names), "step": at},
            )
    return None


def _drawn_and_apart(both: Both, at: int, rank: int) -> tuple[str, ...]:
    """Return the generators whose states differ when step `at` begins, and have changed in the step before it."""
    mine, theirs = (both.step_info(at, rank, of_target=of_target).rng for of_target in (False, True))
    before = [both.step_info(at - 1, rank, of_target=of_target).rng for of_target in (False, True)]
    return tuple(
        name
        for name in SEEDS
        if mine.get(name) and theirs.get(name) and mine[name] != theirs[name]
        if any(old.get(name) and old[name] != new[name] for old, new in zip(before, (mine, theirs), strict=True))
    )
