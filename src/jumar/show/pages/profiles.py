"""The page of two profiles: whether the step became slower, and what changed in it."""

from __future__ import annotations

from collections.abc import Sequence

from jumar.advise.against import Change, ProfileComparison
from jumar.base.text import counted
from jumar.base.text.digits import Cell
from jumar.show.blocks.page import Action, Column, KeyValues, Page, Section, Status, Table, Text, Verdict

MAX_OPERATORS = 100
DEFAULT_TOLERANCE = 0.05
"""Where no `--fail-on slower:…` was given: "as long as before" is said of intervals that end below this share."""

ABOUT = (
    "Medians over the steps after the first. A change counts when the 95 % interval of the difference of medians "
    "(bootstrap over steps, a fixed seed) does not hold 0. Runs on two machines differ by their machines, too."
)


def against_page(comparison: ProfileComparison, allowed: float | None = None) -> Page:
    """Return the page; `allowed` is the share by which the step may become slower, where one was given."""
    changed = [one for one in comparison.operators if one.is_beyond_noise]
    sections = [
        _section("Parts of the step", comparison.parts),
        _section(f"Operators ({len(changed)} of {len(comparison.operators)} changed)", changed[:MAX_OPERATORS]),
        Section(title="What could not be compared", blocks=[Text(text=" ".join(comparison.notes))])
        if comparison.notes
        else None,
        Section(
            title="How it was compared",
            blocks=[
                KeyValues(
                    items=[
                        ("before", comparison.before),
                        ("after", comparison.after),
                        ("steps before", comparison.num_steps[0]),
                        ("steps after", comparison.num_steps[1]),
                    ]
                ),
                Text(text=ABOUT),
            ],
            collapsed=True,
        ),
    ]
    return Page(
        title=f"{comparison.after} against {comparison.before}",
        verdict=_verdict(comparison, allowed, len(changed)),
        actions=[
            Action(title=f"Look at the bottlenecks of {comparison.after}", command=f"jumar advise {comparison.after}")
        ],
        sections=[section for section in sections if section is not None],
        footer=ABOUT,
    )


def _verdict(comparison: ProfileComparison, allowed: float | None, num_changed: int) -> Verdict:
    step = comparison.step
    figures = f"{step.before_ms:,.2f} ms before, {step.after_ms:,.2f} ms after ({_interval(step)})"
    tolerance = DEFAULT_TOLERANCE if allowed is None else allowed
    if not step.is_beyond_noise and step.high_ms > tolerance * step.before_ms:
        headline = (
            f"The profiles are too noisy to tell whether the step became more than {tolerance:.0%} slower: {figures}."
        )
        status: Status = "attention"
    elif not step.is_beyond_noise:
        headline, status = f"The step takes as long as before, within the noise: {figures}.", _fine(comparison)
    elif step.change_ms > 0:
        headline, status = (
            f"The step became slower by {100 * step.share:,.1f} %: {figures}.",
            _slower(comparison, allowed),
        )
    else:
        headline, status = f"The step became faster by {-100 * step.share:,.1f} %: {figures}.", _fine(comparison)
    details = [
        f"Compared: {counted(comparison.num_steps[0], 'step')} with {comparison.num_steps[1]}, "
        f"{counted(len(comparison.operators), 'operator')}, of which {num_changed} changed beyond the noise."
    ]
    return Verdict(status=status, headline=headline, details=details)


def _fine(comparison: ProfileComparison) -> Status:
    return "attention" if comparison.notes else "fine"


def _slower(comparison: ProfileComparison, allowed: float | None) -> Status:
    return "failed" if allowed is not None and comparison.is_slower(allowed) else "attention"


def _section(title: str, changes: Sequence[Change]) -> Section | None:
    if not changes:
        return None
    columns = [
        Column(title="name", code=True),
        Column(title="before", unit="ms", number=True),
        Column(title="after", unit="ms", number=True),
        Column(title="change", unit="ms", number=True, bar=True),
        Column(title="95 % interval"),
    ]
    rows: list[list[Cell]] = [
        [one.name, round(one.before_ms, 3), round(one.after_ms, 3), round(one.change_ms, 3), _interval(one)]
        for one in changes
    ]
    marked = [row for row, one in enumerate(changes) if one.low_ms > 0]
    return Section(title=title, blocks=[Table(columns=columns, rows=rows, marked=marked)])


def _interval(one: Change) -> str:
    return f"{one.low_ms:+,.3f} to {one.high_ms:+,.3f} ms"
