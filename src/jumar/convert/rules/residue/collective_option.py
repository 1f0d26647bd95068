"""## What it does
Finds what only NCCL's process group takes: `ProcessGroupNCCL.Options`, `pg_options=`, the reductions BAND, BOR and
BXOR, and private parts of `torch.distributed` that name NCCL.

## Why it matters
The backend `hccl` is another class: a NCCL option object is refused, and a bitwise reduction raises in the middle
of training. Sums, products, minima, maxima and means are there (a mean is a sum that is divided).

## Example
```python
options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=True)
group = dist.new_group(ranks, pg_options=options)
```

## Use instead
```python
group = dist.new_group(ranks)
```

## Fix safety
No fix: the options of HCCL's group are others (`torch_npu._C._distributed_c10d.ProcessGroupHCCL.Options`).

## References
- Ascend/pytorch `torch_npu/csrc/distributed/ProcessGroupHCCL.cpp` (reductions that HCCL has)
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context, keyword
from jumar.convert.rules.subject.places import distinct
from jumar.convert.syntax.source import Reference

RULE = Rule(
    code="JM142",
    name="collective-option",
    summary="Something is asked of the process group that only NCCL has.",
    severity=Severity.WARNING,
    doc=__doc__,
)


_GROUPS = frozenset(
    {"torch.distributed.init_process_group", "torch.distributed.new_group", "torch.distributed.split_group"}
    | {"torch.distributed.device_mesh.init_device_mesh"}
)
_BITWISE = ("BAND", "BOR", "BXOR")


def find(context: Context) -> Iterator[Proposal]:
    """Report NCCL's classes and options, and reductions that HCCL lacks."""
    source = context.source
    for reference in distinct(source.references):
        if not reference.name.startswith("torch.") or context.covered(source.span(reference.node)):
            continue
        found = _judge(reference)
        if found is not None:
            message, action = found
            yield Proposal(rule=RULE, span=source.span(reference.node), message=message, action=action)
        if reference.name in _GROUPS and reference.call is not None:
            argument = keyword(reference.call, "pg_options")
            if argument is not None and source.code(argument.value) != "None":
                yield Proposal(
                    rule=RULE, span=source.span(argument), severity=Severity.ADVICE, confidence="likely",
                    message="`pg_options` holds options of one back end.",
                    action="Pass None, or options of torch_npu's ProcessGroupHCCL, where the backend is hccl.",
                )  # fmt: skip


def _judge(reference: Reference) -> tuple[str, str] | None:
    name = reference.name
    if "ProcessGroupNCCL" in name:
        return f"`{name}` is NCCL's process group.", "Leave its options out where the backend is hccl."
    if ".ReduceOp." in name and name.rpartition(".")[2] in _BITWISE:
        return f"HCCL has no reduction `{name.rpartition('.')[2]}`.", "Gather the values and reduce them locally."
    return None
