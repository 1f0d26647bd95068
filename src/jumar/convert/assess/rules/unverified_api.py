"""APIs of PyTorch about which neither the vendor's list nor the operator tables say anything.

## What it does
Collects every `torch` API of the source that no table covers, into one finding.

## Why it matters
Nothing says that they fail: most are thin Python over operators that are supported. The vendor has just
not verified them, so they are the first suspects when something behaves differently.

## Example
`torch.nn.Dropout1d` is in no table for torch_npu 2.13.

## Use instead
Nothing, until a run shows a problem: `jumar record` and `jumar assess RECORDING` list the operators
that these APIs really execute.

## Fix safety
No edit is made.

## References
Ascend/pytorch, `docs/zh/api/native_api`: "APIs that are not in this list have not been verified".
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.base.text import listing
from jumar.convert.assess.subject import Assessed, first_place, shown

RULE = Rule(
    code="JM202",
    name="unverified-api",
    summary="The script uses PyTorch APIs that the vendor has not verified on the NPU.",
    severity=Severity.INFO,
    doc=__doc__,
)

MAX_NAMES = 6


def find(subject: Assessed) -> Iterator[Finding]:
    """Yield one finding for all unverified APIs together."""
    found = [row for row in subject.rows if row.kind == "api" and row.status == "unverified"]
    if not found:
        return
    by_use = sorted(found, key=lambda row: -row.num_uses)
    names = listing((row.name for row in by_use), MAX_NAMES)
    verb = "API is" if len(found) == 1 else "APIs are"
    yield RULE.finding(
        f"{len(found)} {verb} in no table for {subject.tables.soc.name}: {names}.",
        where=first_place(by_use[0]),
        evidence={"apis": [{"name": row.name, "num_uses": row.num_uses, "places": shown(row.where)} for row in by_use]},
        why="They may well work: the vendor has only not verified them.",
        action="Record a short run and assess the recording: it shows the operators they execute.",
    )
