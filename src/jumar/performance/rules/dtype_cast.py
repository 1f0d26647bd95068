"""JM404 dtype-cast.

## What it does
Reports four patterns among the casts of a recorded run: a round trip (`x.half().float()`: a cast
directly undone by the next), the same unchanged tensor cast to the same dtype more than once in a step,
islands (an operator between a cast up from half precision and a cast back down), and casts that
make up more than a tenth of a step's launches or bytes. Each with counts, bytes and source lines.

## Why it matters
A cast reads and writes the whole tensor and computes nothing. A round trip through float16 also
drops 13 bits of the mantissa for good. The vendor's guides name Cast,
beside TransData, as the first thing to look for when a framework inserts too much.

## Example
```python
attention = attention.half().float()
scores = mask.float() * scores + (1 - mask.float()) * floor
```

## Use instead
```python
weight = mask.float()
scores = weight * scores + (1 - weight) * floor
```

## Fix safety
No edit is made: removing a round trip changes the values in their last bits.

## References
MindSpore migration guide, "framework performance"; PyTorch documentation, "Automatic Mixed Precision", operator lists.
Casts that autocast must make (each weight once a forward) are counted only in the share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from jumar.findings import Severity
from jumar.performance.casts import Cast, cast_of, island_operator, undone_cast
from jumar.performance.checker import Checker, Priced, Result
from jumar.performance.cost import Cost
from jumar.performance.operators import tensor_key
from jumar.performance.subject import StepView, Subject, Totals
from jumar.performance.tally import (
    Tally,
    bytes_text,
    number_text,
    per_step,
    percent_text,
    rate_text,
    share,
    split_source,
)
from jumar.rules import Rule

RULE = Rule(
    code="JM404",
    name="dtype-cast",
    summary="Casts are undone, repeated, or make up much of the step.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

HEAVY_SHARE = 0.1
"""Casts above this share of launches or bytes are a finding in themselves."""

Pattern = Literal["round trip", "repeated", "island"]
Key = tuple[Pattern, str, str, str]
"""Pattern, dtypes (`float32 → float16 → float32`), first source line, second source line or operator."""


class DtypeCast(Checker):
    """Tallies casts by pattern and place."""

    rule = RULE

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._all = Tally()
        self._directions: dict[str, int] = {}
        self._patterns: dict[Key, Tally] = {}

    def observe(self, step: StepView) -> None:
        """Tally the step's casts; a cast is held against one pattern at most."""
        done: set[object] = set()
        for call in step.calls:
            cast = cast_of(call) if call.launched and self.subject.on_device(call) else None
            if cast is None:
                continue
            self._all.add(call, step.step)
            self._directions[cast.direction] = self._directions.get(cast.direction, 0) + 1
            position = cast.position
            identity = (tensor_key(call.row.inputs[position]), call.versions[position], cast.after)
            key, moved = self._pattern(step, cast, repeated=identity in done)
            done.add(identity)
            if key is not None:
                self._patterns.setdefault(key, Tally()).add(call, step.step, bytes_moved=moved)

    def _pattern(self, step: StepView, cast: Cast, *, repeated: bool) -> tuple[Key | None, int]:
        source = cast.call.row.source
        first = undone_cast(step, cast)
        if first is not None:
            dtypes = f"{first.before} → {first.after} → {cast.after}"
            moved = first.call.bytes_moved + cast.call.bytes_moved
            return ("round trip", dtypes, first.call.row.source, source), moved
        if repeated:
            return ("repeated", cast.direction, source, ""), cast.call.bytes_moved
        island = island_operator(step, cast)
        if island is not None:
            up, operator = island
            moved = up.call.bytes_moved + cast.call.bytes_moved
            return ("island", f"{up.before} → {up.after} → {cast.after}", "", operator), moved
        return None, 0

    def result(self, totals: Totals) -> Result:
        """Return one finding a pattern and place, and one for the casts as a whole when they weigh much."""
        findings = [self._finding(key, tally, totals) for key, tally in self._patterns.items()]
        launches = share(self._all.num_launches, totals.num_launches)
        moved = share(self._all.bytes_moved, totals.bytes_moved)
        if max(launches, moved) >= HEAVY_SHARE:
            findings.append(self._heavy(launches, moved, totals))
        return Result(findings=tuple(findings))

    def _finding(self, key: Key, tally: Tally, totals: Totals) -> Priced:
        pattern, dtypes, first, second = key
        calls, moved = per_step(tally.num_calls, totals), per_step(tally.bytes_moved, totals)
        where = tally.where()
        if first:
            path, line = split_source(first)
            where = replace(where, path=path, line=line)
        what = _pattern_text(key, rate_text(tally.num_calls, totals))
        finding = self.rule.finding(
            f"{what}{tally.modules_text()}: {bytes_text(moved)} a step.",
            where=where,
            evidence={**tally.evidence(totals), "pattern": pattern, "dtypes": dtypes, "second": second},
            why=_WHY[pattern],
            action=_ACTION[pattern],
            severity=None if tally.is_material(totals) else Severity.INFO,
        )
        # A round trip and an island are two launches each, and both casts go away.
        return Priced(finding, Cost(memory_bytes=moved, num_launches=calls * (1 if pattern == "repeated" else 2)))

    def _heavy(self, launches: float, moved: float, totals: Totals) -> Priced:
        tally = self._all
        calls = per_step(tally.num_calls, totals)
        finding = self.rule.finding(
            f"Casts are {percent_text(launches)} of the operators and {percent_text(moved)} of the bytes moved: "
            f"{number_text(calls)} a step, {_directions_text(self._directions, totals)}.",
            where=tally.where(),
            evidence={**tally.evidence(totals), "pattern": "share", "directions": dict(self._directions)},
            why="A cast reads and writes a whole tensor and computes nothing.",
            action="Keep whole blocks in one dtype: hold constants, masks and buffers in the dtype they are used in, "
            "and enter autocast once a step.",
        )
        patterned = sum(tally.bytes_moved for tally in self._patterns.values())
        # What the other findings already hold against casts is not counted twice; half of the rest is thought needed.
        rest = max(tally.bytes_moved - patterned, 0) / 2
        return Priced(finding, Cost(memory_bytes=per_step(rest, totals), num_launches=calls / 2))


_WHY: Mapping[Pattern, str] = {
    "round trip": "The second cast undoes the first: both move the whole tensor, and a narrow dtype drops bits.",
    "repeated": "The tensor has not changed since it was last cast to the same dtype.",
    "island": "One operator in a wider dtype costs two casts around it.",
}
_ACTION: Mapping[Pattern, str] = {
    "round trip": "Remove both casts, or keep the narrow tensor.",
    "repeated": "Cast once and keep the result; for weights, enter autocast once around all micro-batches.",
    "island": "If the operator is accurate enough in half precision, let it run there; otherwise fuse it with its "
    "neighbours or keep the neighbours in the wider dtype too.",
}


def _pattern_text(key: Key, rate: str) -> str:
    pattern, dtypes, first, second = key
    at = f" at {first}" if first else ""
    if pattern == "round trip":
        back = f" (back at {second})" if second not in {"", first} else ""
        return f"A tensor goes {dtypes}{at}{back} {rate}"
    if pattern == "repeated":
        return f"The same unchanged tensor is cast {dtypes} again{at} {rate}"
    return f"`{second}` runs alone in a wider dtype ({dtypes}) {rate}"


def _directions_text(directions: Mapping[str, int], totals: Totals) -> str:
    ordered = sorted(directions.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{direction} {number_text(per_step(count, totals))}" for direction, count in ordered)
