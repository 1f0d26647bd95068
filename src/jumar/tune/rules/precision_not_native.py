"""JM539 precision-not-native.

## What it does
Reports precisions that were left out because the processor does not compute in them.

## Why it matters
Without such instructions every operation converts there and back, and is slower than in float32. On a processor that
has them (AVX512-BF16, AMX, AVX512-FP16, Armv8.6) the same search may find more.

## Example
bf16 was left out: this processor has no bf16 arithmetic (amx_bf16 or avx512_bf16 or bf16).

## Use instead
Nothing here; tune on the machine on which the model will run.

## Fix safety
No edit is made.

## References
`jumar docs tune-precision`; `/proc/cpuinfo`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tune.search.outcome import TuneResult

RULE = Rule(
    code="JM539",
    name="precision-not-native",
    summary="The processor does not compute in a precision, which was left out.",
    severity=Severity.INFO,
    doc=__doc__,
)


def find(result: TuneResult) -> Iterator[Finding]:
    """Yield one finding for each precision, once for the whole run."""
    missing = {precision: why for one in result.precisions for precision, why in one.missing.items()}
    for precision, why in missing.items():
        yield RULE.finding(f"{precision} was left out: {why}.", evidence={"precision": precision})
