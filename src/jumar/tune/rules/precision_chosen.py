"""JM535 precision-chosen.

## What it does
Reports the precision that was chosen for a graph: the fastest point within the error budget whose gain clears the
gate, with its time, its error, and the files that say which operators lose precision.

## Why it matters
Fewer bits are the greatest gain that is left when the best engine is known; whether they are good enough is yours to
judge, on the error that was measured from end to end on your own inputs.

## Example
net: openvino, 18 int8 is 2.31 times as fast (95 % interval 2.25 to 2.36) with an error of 0.0071 of 0.01.

## Use instead
`jumar tune MODEL --precision FILE` measures the written list again; the vendor's tools take the ini as
`op_precision_mode` and the list as `modify_mixlist`.

## Fix safety
No edit is made. The choice goes into the bank for these weights and this budget, and only who allows that error gets
it: what runs without `--budget` keeps its precision.

## References
`jumar docs tune-precision`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tune.search.outcome import TuneResult
from jumar.tune.search.precision.outcome import PrecisionOutcome

RULE = Rule(
    code="JM535",
    name="precision-chosen",
    summary="A graph is faster in fewer bits, within the error budget.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(result: TuneResult) -> Iterator[Finding]:
    """Yield one finding for each graph with a chosen point."""
    for one in result.precisions:
        point = one.chosen
        if point is None:
            continue
        gain = point.gain
        yield RULE.finding(
            f"{one.name}: {point.name} is {gain.ratio:.2f} times as fast ({gain.confidence * 100:g} % interval "
            f"{gain.ratio_low:.2f} to {gain.ratio_high:.2f}) with an error of {point.error:.2g} of {one.budget:g}.",
            evidence={
                "ratio": gain.ratio, "ratio_low": gain.ratio_low, "ratio_high": gain.ratio_high,
                "time_us": point.time_us, "error": point.error, "budget": one.budget, "metric": one.metric or None,
                "files": [str(path) for path in one.files],
            },
            why="The error is that of the very plan that was timed, on the real inputs and on random ones.",
            action=_action(one),
        )  # fmt: skip


def _action(one: PrecisionOutcome) -> str:
    """Say how the point is used: what was chosen by a metric is applied by its list only."""
    by_list = "`jumar tune MODEL --precision FILE` takes the list"
    by_bank = "" if one.metric else f"`jumar run --tuned --budget {one.budget:g} SCRIPT` runs it, and "
    return f"Use it where this error is good enough: {by_bank}{by_list}."
