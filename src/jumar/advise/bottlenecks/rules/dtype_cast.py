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

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from jumar.advise.bottlenecks.casts import Cast, cast_of, island_operator, undone_cast
from jumar.advise.bottlenecks.cost import Cost
from jumar.advise.bottlenecks.run import Run, StepView
from jumar.advise.bottlenecks.tally import (
    Tally,
    at_text,
    number_text,
    per_step,
    percent_text,
    rate_text,
    share,
)
from jumar.advise.bottlenecks.tensors import tensor_key
from jumar.advise.checks import Outcomes
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.base.text import size_text
from jumar.recording.schema import split_source

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

WHY: Mapping[Pattern, str] = {
    "round trip": "The second cast undoes the first: both move the whole tensor, and a narrow dtype drops bits.",
    "repeated": "The tensor has not changed since it was last cast to the same dtype.",
    "island": "One operator in a wider dtype costs two casts around it.",
}
ACTION: Mapping[Pattern, str] = {
    "round trip": "Remove both casts, or keep the narrow tensor.",
    "repeated": "Cast once and keep the result; for weights, enter autocast once around all micro-batches.",
    "island": "If the operator is accurate enough in half precision, let it run there; otherwise fuse it with its "
    "neighbours or keep the neighbours in the wider dtype too.",
}


def find(run: Run) -> Outcomes:
    """Yield one finding for each pattern and place, and one for all casts when they weigh much."""
    casts, directions = Tally(), Counter[str]()
    patterns: dict[Key, Tally] = {}
    for step in run.steps:
        done: set[object] = set()
        for call in step.calls:
            cast = cast_of(call) if call.launched and run.on_device(call) else None
            if cast is None:
                continue
            casts.add(call, step.step)
            directions[cast.direction] += 1
            identity = (tensor_key(call.row.inputs[cast.position]), call.versions[cast.position], cast.after)
            key, moved = _pattern(step, cast, repeated=identity in done)
            done.add(identity)
            if key is not None:
                patterns.setdefault(key, Tally()).add(call, step.step, bytes_moved=moved)
    for key, tally in patterns.items():
        yield _finding(run, key, tally)
    launches = share(casts.num_launches, run.totals.num_launches)
    moved_share = share(casts.bytes_moved, run.totals.bytes_moved)
    if max(launches, moved_share) >= HEAVY_SHARE:
        patterned = sum(tally.bytes_moved for tally in patterns.values())
        yield _heavy(run, casts, directions, patterned)


def _pattern(step: StepView, cast: Cast, *, repeated: bool) -> tuple[Key | None, int]:
    """Return the pattern that the cast is held against, one at most, and the bytes it moves."""
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


def _finding(run: Run, key: Key, tally: Tally) -> Finding:
    pattern, dtypes, first, second = key
    calls, moved = per_step(tally.num_calls, run.totals), per_step(tally.bytes_moved, run.totals)
    where = tally.where()
    if first:
        path, line = split_source(first)
        where = replace(where, path=path, line=line)
    what = _pattern_text(key, rate_text(tally.num_calls, run.totals))
    finding = RULE.finding(
        f"{what}{tally.modules_text()}: {size_text(moved)} a step.",
        where=where,
        evidence={**tally.evidence(run.totals), "pattern": pattern, "dtypes": dtypes, "second": second},
        why=WHY[pattern],
        action=ACTION[pattern],
        severity=None if tally.is_material(run.totals) else Severity.INFO,
    )
    # A round trip and an island are two launches each, and both casts go away.
    return run.priced(finding, Cost(memory_bytes=moved, num_launches=calls * (1 if pattern == "repeated" else 2)))


def _heavy(run: Run, casts: Tally, directions: Counter[str], patterned_bytes: int) -> Finding:
    totals = run.totals
    calls = per_step(casts.num_calls, totals)
    listed = ", ".join(f"{name} {number_text(per_step(n, totals))}" for name, n in directions.most_common(3))
    finding = RULE.finding(
        f"Casts are {percent_text(share(casts.num_launches, totals.num_launches))} of the operators and "
        f"{percent_text(share(casts.bytes_moved, totals.bytes_moved))} of the bytes moved: "
        f"{number_text(calls)} a step, {listed}.",
        where=casts.where(),
        evidence={**casts.evidence(totals), "pattern": "share", "directions": dict(directions)},
        why="A cast reads and writes a whole tensor and computes nothing.",
        action="Keep whole blocks in one dtype: hold constants, masks and buffers in the dtype they are used in, "
        "and enter autocast once a step.",
    )
    # The other findings count the casts of the patterns. Half of the rest is taken as needed.
    rest = max(casts.bytes_moved - patterned_bytes, 0) / 2
    return run.priced(finding, Cost(memory_bytes=per_step(rest, totals), num_launches=calls / 2))


def _pattern_text(key: Key, rate: str) -> str:
    pattern, dtypes, first, second = key
    if pattern == "round trip":
        back = f" (back at {second})" if second not in {"", first} else ""
        return f"A tensor goes {dtypes}{at_text(first)}{back} {rate}"
    if pattern == "repeated":
        return f"The same unchanged tensor is cast {dtypes} again{at_text(first)} {rate}"
    return f"`{second}` runs alone in a wider dtype ({dtypes}) {rate}"
