"""A call passes arguments that the chosen release of torch_npu does not take.

## What it does
Compares the arguments of each call of torch_npu with the signature that the name has in the chosen release, where
another release has another one.

## Why it matters
Such a call is a TypeError where it is reached. With another release the same line works.

## Example
`torch.npu.is_bf16_supported(including_emulation=True)` with torch_npu 2.6: the argument came with 2.7.

## Use instead
The arguments that the message names as known, or a release that takes them.

## Fix safety
No edit is made.

## References
Ascend/pytorch, `test/torch_npu_schema.json` at the end of each release's branch.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.convert.assess.subject import Assessed

RULE = Rule(
    code="JM210",
    name="changed-call",
    summary="A call passes arguments that the chosen release of torch_npu does not take.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(subject: Assessed) -> Iterator[Finding]:
    """Yield a finding for each such call."""
    for call in subject.refused:
        yield RULE.finding(
            f"torch_npu {subject.tables.torch_version} does not take this call of {call.name}: {call.complaint}.",
            where=call.where,
            evidence={"name": call.name, "release": subject.tables.torch_version},
            why="The call raises TypeError where it is reached.",
            action="Leave that argument out, or choose a release that takes it with --torch-version.",
        )
