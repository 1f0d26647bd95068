"""An API of PyTorch that the vendor's list marks as not supported on the chosen SoC.

## What it does
Looks every `torch` API of the source up in the vendor's list for the chosen torch_npu version and SoC,
under the name itself and under other names of the same object.

## Why it matters
The script stops where it calls such an API, perhaps only after hours, in a branch that a short trial
never reaches. Where the operators behind the API do have NPU kernels, the finding is a warning and not
an error: the vendor's cross may then only mean that the vendor has not verified it.

## Example
`torch.nn.utils.rnn.pack_padded_sequence(x, lengths)` on Ascend910B1: the vendor's list has a cross.

## Use instead
What the message names; else run that part on the CPU (`x.cpu()` … `.to(device)`), or write it with
operators that are supported. `jumar record` and `jumar assess RECORDING` tell whether it really runs.

## Fix safety
No edit is made: a replacement is a decision about numerics.

## References
Ascend/pytorch, `docs/zh/api/native_api`.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.convert.assess.model import Row
from jumar.convert.assess.subject import Assessed, evidence, first_place, times
from jumar.soc.support import SupportTables
from jumar.soc.support.releases import instead

RULE = Rule(
    code="JM201",
    name="unsupported-api",
    summary="The script uses a PyTorch API that the NPU does not support.",
    severity=Severity.ERROR,
    doc=__doc__,
)

REPLACEMENTS = {
    "torch.nn.DataParallel": "use torch.nn.parallel.DistributedDataParallel with one process for each device",
    "torch.nn.parallel.data_parallel": "use torch.nn.parallel.DistributedDataParallel",
    "torch.nn.utils.clip_grad_norm": "use torch.nn.utils.clip_grad_norm_",
    "torch.autograd.profiler.emit_nvtx": "use torch_npu.profiler, or torch_npu.npu.mstx for marks",
    "torch.utils.cpp_extension.load": "build the extension for the NPU, or call a torch_npu operator in its place",
}


def find(subject: Assessed) -> Iterator[Finding]:
    """Yield a finding for each unsupported API that is not CUDA's own."""
    for row in subject.rows:
        if row.kind == "api" and row.status == "unsupported" and not row.name.startswith("torch.cuda."):
            yield RULE.finding(
                _message(row, subject.tables),
                where=first_place(row),
                evidence=evidence(row),
                why="The script stops where it calls an API that the NPU does not have.",
                action=_action(row),
                severity=Severity.ERROR if row.certain else Severity.WARNING,
                confidence="certain" if row.certain else "possible",
            )


def _message(row: Row, tables: SupportTables) -> str:
    used = f"{row.name} ({times(row.num_uses, 'use')})"
    if row.name.startswith(("torch.npu", "torch_npu")):
        return f"{used} {row.note}."
    if row.source.startswith("vendor"):
        doubt = "" if row.certain else f", though {row.note}"
        return f"The vendor marks {used} as not supported on {tables.soc.name}{doubt}."
    return f"{used} does not run on {tables.soc.name}: it {row.note}."


def _action(row: Row) -> str:
    other = instead(row.name)
    if other:
        return other
    if row.name in REPLACEMENTS:
        return REPLACEMENTS[row.name][0].upper() + REPLACEMENTS[row.name][1:] + "."
    if not row.certain:
        return "Try it on the device in a short run before you replace it."
    return "Replace it, or run that part on the CPU."
