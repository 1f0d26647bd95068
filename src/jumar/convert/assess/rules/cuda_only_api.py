"""A `torch.cuda` API that torch_npu has no counterpart of.

## What it does
Looks every `torch.cuda` name of the source up in the map from torch.cuda to torch.npu, and in the vendor's
list. Names that have a counterpart are the business of `jumar convert` and are not reported.

## Why it matters
Renaming `cuda` to `npu` gives a name that does not exist: an AttributeError, often in an error path or a
diagnostic that a short trial does not reach.

## Example
`torch.cuda.cudart()`, `torch.cuda.nccl.version()`, `torch.cuda.get_arch_list()`.

## Use instead
The device-independent form where there is one (`torch.accelerator`, `torch.OutOfMemoryError`); else guard
the call with `if torch.cuda.is_available():` and give the NPU its own branch.

## Fix safety
No edit is made here.

## References
torch 2.13 and torch_npu 2.13: the public names of both.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.convert.assess.subject import Assessed, evidence, first_place, times

RULE = Rule(
    code="JM207",
    name="cuda-only-api",
    summary="The script uses a torch.cuda API that has no counterpart on the NPU.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(subject: Assessed) -> Iterator[Finding]:
    """Yield a finding for each torch.cuda name without a counterpart."""
    for row in subject.rows:
        if row.kind == "api" and row.status == "unsupported" and row.name.startswith("torch.cuda."):
            reason = f": {row.note}" if row.note else ""
            yield RULE.finding(
                f"{row.name} ({times(row.num_uses, 'use')}) has no counterpart on the NPU{reason}.",
                where=first_place(row),
                evidence=evidence(row),
                why="Renamed to torch.npu it is an AttributeError where it is reached.",
                action="Guard it so that only CUDA reaches it, or use the device-independent form if there is one.",
            )
