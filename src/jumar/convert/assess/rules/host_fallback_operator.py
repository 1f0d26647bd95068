"""An operator of the recorded run that has no NPU kernel, so that it runs on the host.

## What it does
Looks every operator that was executed up in the tables of kernels that torch_npu registers, and follows
composite operators to the ones they call.

## Why it matters
torch_npu waits for the device, copies the inputs to the host, runs the CPU kernel and copies the result
back, at each call. The finding says how often that happens in the recorded steps and what share of the
operators' time the calls took where they were recorded.

## Example
`aten::_fused_adam_`, from `torch.optim.Adam(..., fused=True)`: torch_npu has fused AdamW and SGD only.

## Use instead
An equal formulation with supported operators (`fused=False` in the example), or move the call out of the
step.

## Fix safety
No edit is made.

## References
Ascend/op-plugin, `op_plugin/config/op_plugin_functions.yaml`; Ascend/pytorch, `VariableFallbackKernel.cpp`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.convert.assess.subject import Assessed, evidence, first_place, times

RULE = Rule(
    code="JM204",
    name="host-fallback-operator",
    summary="The run executes an operator that has no NPU kernel and runs on the host.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

ADVICE = {
    "aten::_fused_adam_": "Create the optimizer with fused=False, or take torch_npu.optim.NpuFusedAdam.",
    "aten::_fused_adagrad_": "Create the optimizer with fused=False.",
}


def find(subject: Assessed) -> Iterator[Finding]:
    """Yield a finding for each operator that falls back, the one that takes most time first."""
    found = [row for row in subject.rows if row.kind == "operator" and row.status == "fallback"]
    for row in sorted(found, key=lambda row: -(row.share or 0.0)):
        share = f", {row.share:.1%} of the recorded operator time" if row.share else ""
        yield RULE.finding(
            f"{row.name} ({times(row.num_uses, 'call')}{share}) runs on the host: it {row.note}.",
            where=first_place(row),
            evidence=evidence(row),
            why="Each call waits for the device and copies its tensors to the host and back.",
            action=ADVICE.get(
                row.name, "Keep it out of the training step, or write it with operators that have NPU kernels."
            ),
            confidence="certain" if row.certain else "likely",
        )
