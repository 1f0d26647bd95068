"""An operator of the recorded run that neither the NPU nor the host fallback can execute.

## What it does
Looks every operator that was executed up in the tables. An operator is unsupported when torch_npu
registers no kernel that the chip can run and no CPU kernel could stand in, or when it registers one that
the chip is known to lack.

## Why it matters
The script stops at the first call. A kernel that is registered hides the fallback, so that the host does
not help: on Ascend910A an operator registered for aclnn only raises.

## Example
`aten::_fft_r2c` on Ascend910A: registered for aclnn only, whose kernels that chip mostly lacks.

## Use instead
The part on the CPU, an equal formulation with supported operators, or a newer SoC.

## Fix safety
No edit is made.

## References
Ascend/op-plugin, `op_plugin/config/op_plugin_functions.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.convert.assess.subject import Assessed, evidence, first_place, times

RULE = Rule(
    code="JM205",
    name="unsupported-operator",
    summary="The run executes an operator that does not run on the NPU at all.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(subject: Assessed) -> Iterator[Finding]:
    """Yield a finding for each operator that cannot run; a warning where the subject.tables leave a doubt."""
    for row in subject.rows:
        if row.kind == "operator" and row.status == "unsupported":
            verb = "does not run" if row.certain else "probably does not run"
            yield RULE.finding(
                f"{row.name} ({times(row.num_uses, 'call')}) {verb} on {subject.tables.soc.name}: it {row.note}.",
                where=first_place(row),
                evidence=evidence(row),
                why="The script stops at the first call.",
                action="Run that part on the CPU, or write it with operators that are supported.",
                severity=Severity.ERROR if row.certain else Severity.WARNING,
                confidence="certain" if row.certain else "likely",
            )
