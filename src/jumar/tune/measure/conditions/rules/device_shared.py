"""JM534 device-shared.

## What it does
Reports, before a run, other processes that take a good part of a core, and a load average above half of the
cores. Processes that belong to this run do not count.

## Why it matters
What another program takes is missing in the measurement, and not in both halves of a pair alike. Disturbed pairs
are left out, which makes the run longer, and some candidates cannot be judged (JM507). The vendor's rule is the same:
two users must not share a device.

## Example
2 other processes compute: `python` (1.0 cores), `cc1plus` (0.9 cores); the load average is 2.3 on 2 cores.

## Use instead
A machine that is left alone while it is tuned.

## Fix safety
No edit is made.

## References
Document 001, preconditions: the device is used by one task. `jumar docs guide-tune`, a busy machine.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tune.measure.conditions.preconditions import Conditions

RULE = Rule(
    code="JM534",
    name="device-shared",
    summary="Other programs compute on the device that is to be measured.",
    severity=Severity.WARNING,
    doc=__doc__,
)

MOST_LOAD = 0.5
"""Of the cores."""
SHOWN = 3


def find(conditions: Conditions) -> Iterator[Finding]:
    """Yield one finding for all neighbours and the load."""
    around = conditions.surroundings
    load, cores = around.load_average, around.num_cores
    loaded = load is not None and load > MOST_LOAD * cores
    if not around.neighbours and not loaded:
        return
    names = ", ".join(f"`{one.name}` ({one.share:.1f} cores)" for one in around.neighbours[:SHOWN])
    more = len(around.neighbours) - SHOWN
    parts = []
    if names:
        count = len(around.neighbours)
        parts.append(
            f"{count} other process{'es compute' if count > 1 else ' computes'}: {names}"
            + (f" and {more} more" if more > 0 else "")
        )
    if loaded:
        parts.append(f"the load average of the last minute is {load:.1f} on {cores} cores")
    message = "; ".join(parts)
    yield RULE.finding(
        f"{message[0].upper()}{message[1:]}.",
        evidence={"load_average": load, "num_cores": cores, "num_neighbours": len(around.neighbours)},
        why="Disturbed measurements are taken again, and candidates may not be judged at all.",
        action="Tune on a machine that is left alone.",
    )
