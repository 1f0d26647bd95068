"""An API whose operators have no NPU kernel, so that they run on the host.

## What it does
Follows an API to the operators that PyTorch calls for it, and looks those up in the tables of kernels
that torch_npu registers.

## Why it matters
torch_npu does not stop at such an operator. It waits for the device, copies the inputs to the host, runs
the CPU kernel and copies the result back, each time it is called. In a training step that is often the
slowest thing of all, and the log says so only once.

## Example
`torch.linalg.inv(a)`: `aten::linalg_inv_ex` has no NPU kernel.

## Use instead
An equal formulation with supported operators, or move the call out of the step. With
`TORCH_NPU_FALLBACK_CPU_DISABLE=1` torch_npu raises instead of falling back, which shows every place.

## Fix safety
No edit is made.

## References
Ascend/pytorch, `docs/zh/api/environment_variable/op_execution/TORCH_NPU_FALLBACK_CPU_DISABLE.md`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.convert.assess.subject import Assessed, evidence, first_place, times

RULE = Rule(
    code="JM203",
    name="host-fallback-api",
    summary="The script uses a PyTorch API whose operators run on the host.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(subject: Assessed) -> Iterator[Finding]:
    """Yield a finding for each API that falls back."""
    for row in subject.rows:
        if row.kind == "api" and row.status == "fallback":
            yield RULE.finding(
                f"{row.name} ({times(row.num_uses, 'use')}) runs on the host: it {row.note}.",
                where=first_place(row),
                evidence=evidence(row),
                why="Each call waits for the device and copies its tensors to the host and back.",
                action="Keep it out of the training step, or write it with operators that have NPU kernels.",
                confidence="certain" if row.certain else "likely",
            )
