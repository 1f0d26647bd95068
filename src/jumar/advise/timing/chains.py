"""Chains of operators that one fused operator does: found by their order in the forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jumar.advise.bottlenecks.tally import at_text, percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.products import base
from jumar.advise.timing.profile import Profile
from jumar.base.findings import Location
from jumar.base.rules import Rule
from jumar.recording.schema import split_source
from jumar.timeline.model import nesting
from jumar.timeline.model.events import Integers, Kind

Pattern = Sequence[frozenset[str]]
"""The names of each part, without namespace and overload, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """What is looked for, and what to use in its place."""

    what: str
    """`RMSNorm`: the subject of the sentence."""
    patterns: Sequence[Pattern]
    unless: frozenset[str] = frozenset()
    """Operators that may not stand between the parts: they belong to something else."""
    near: int = 6
    """So many outermost operators may lie between two parts: casts, views, epsilons."""
    use: str
    """What to do, a sentence."""


def steps_of(*names: str) -> Pattern:
    """Return a pattern: `steps_of("pow|mul", "mean", "rsqrt")`."""
    return [frozenset(name.split("|")) for name in names]


def find_fusions(profile: Profile, rule: Rule, fusions: Sequence[Fusion], what: str) -> Outcomes:
    """Yield a finding for each fusion whose parts fill a share of the steps, which `thresholds` has for the rule.

    An operator is a part of the first fusion that it fits: LayerNorm holds the parts of RMSNorm.
    """
    rows, names = outermost_operators(profile)
    if not any(names):
        yield not_checked(rule, "the timeline has no operators of PyTorch.")
        return
    taken: set[int] = set()
    for fusion in fusions:
        found = []
        for pattern in fusion.patterns:
            new = [chain for chain in chains(names, pattern, fusion) if taken.isdisjoint(chain)]
            taken.update(place for chain in new for place in chain)
            found += new
        parts = rows[np.array(sorted({place for chain in found for place in chain}), np.int64)]
        spans = profile.spans(parts) | profile.spans(started_by(profile, parts))
        if profile.rate(len(found)) < 1 or profile.share(spans) < profile.thresholds.of(rule.code, "share"):
            continue
        source = profile.line_of(rows[np.array([chain[0] for chain in found], np.int64)])
        path, line = split_source(source)
        spent = profile.per_step_ms(spans.total_ns)
        finding = rule.finding(
            f"{fusion.what} is calculated in parts {profile.rate(len(found)):,.0f} times a step{at_text(source)}: "
            f"{spent:,.2f} ms a step in the forward pass, {percent_text(profile.share(spans))} of it.",
            where=Location(path=path, line=line, operator=profile.timeline.name_of(int(parts[0]))),
            evidence={"what": fusion.what, "times_per_step": round(profile.rate(len(found)), 2),
                      "ms_per_step": round(spent, 3)},
            why=f"Each part reads and writes the whole tensor; {what}",
            action=fusion.use,
            confidence="likely",
        )  # fmt: skip
        yield profile.priced(finding, spans)


def outermost_operators(profile: Profile) -> tuple[Integers, list[str]]:
    """Return the rows of operators that lie in no other operator, in the judged steps, by begin; and their names."""
    timeline, events = profile.timeline, profile.timeline.events
    rows = profile.inside(timeline.of(Kind.OPERATOR) & timeline.on("host"))
    lanes = events.lane[rows].astype(np.int64)
    order = nesting.in_order(lanes, events.start_ns[rows], events.duration_ns[rows])
    rows = rows[order]
    holders = nesting.parents(lanes[order], events.start_ns[rows], events.duration_ns[rows])
    top = rows[holders == nesting.NO_PARENT]
    words = [base(name) if "::" in name else "" for name in timeline.names]
    return top, [words[index] for index in events.name[top].tolist()]


def chains(names: Sequence[str], pattern: Pattern, fusion: Fusion) -> list[tuple[int, ...]]:
    """Return the places of the parts of each chain; a place is in one chain at most."""
    found: list[tuple[int, ...]] = []
    free = 0
    for start, name in enumerate(names):
        if start >= free and name in pattern[0]:
            places = _follow(names, pattern, fusion, start)
            if places:
                found.append(places)
                free = places[-1] + 1
    return found


def _follow(names: Sequence[str], pattern: Pattern, fusion: Fusion, start: int) -> tuple[int, ...]:
    places = [start]
    for wanted in pattern[1:]:
        for place in range(places[-1] + 1, min(places[-1] + 2 + fusion.near, len(names))):
            if names[place] in wanted:
                places.append(place)
                break
            if names[place] in fusion.unless:
                return ()
        else:
            return ()
    return tuple(places)


def started_by(profile: Profile, rows: Integers) -> Integers:
    """Return the device's events that the host launched while one of these operators ran."""
    timeline, events = profile.timeline, profile.timeline.events
    spans = profile.of_events(rows)
    calls = timeline.on("host") & (events.link != 0) & spans.hold(events.start_ns)
    linked = np.isin(events.link, events.link[calls]) & timeline.on("device") & (events.link != 0)
    return np.flatnonzero(linked)
