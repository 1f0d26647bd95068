"""## What it does
Reports each use of a function or class of a CUDA library for which it is documented what stands on an NPU:
apex (amp O0 to O3, fused optimizers and norms, SyncBatchNorm, DistributedDataParallel), flash_attn, xformers,
bitsandbytes, DALI, Transformer Engine, DeepSpeed's operators, mmcv's operators (which of them have an NPU
kernel), torch_scatter, faiss on a GPU, NVML and others. The finding names the counterpart and, argument by
argument, what differs.

## Why it matters
A counterpart with the same name for its first three arguments is where a port goes wrong silently: another
layout, a scale whose default is 1, a mask aligned to another corner, a weight decay that was 0.

## Example
```python
out = flash_attn_func(q, k, v, dropout_p=0.1, causal=True)
optimizer = apex.optimizers.FusedAdam(model.parameters(), lr=1e-3)
```

## Use instead
```python
q, k, v = (x.transpose(1, 2) for x in (q, k, v))
out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True).transpose(1, 2)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
```

## Fix safety
No fix here; with similar interfaces allowed (`-sim`), JM145, JM146 and JM147 replace what has an equal.

## References
- The packaged table `counterparts.json` names the source of each statement
- Ascend/op-plugin `docs/zh/custom_APIs/torch_npu` (npu_fusion_attention, npu_rotary_mul)
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.counterparts import Library, LibraryUse, use_of
from jumar.convert.rules.subject.places import comes_optionally, distinct, is_own_module
from jumar.convert.syntax.source import Reference, Source

RULE = Rule(
    code="JM130",
    name="cuda-library-use",
    summary="A function of a CUDA library is used that something else stands for on an NPU.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(context: Context) -> Iterator[Proposal]:
    """Report every call, decorator and base class that the table of counterparts knows."""
    source = context.source
    told: set[LibraryUse] = set()
    for reference in distinct(source.references):
        found = use_of(reference.name)
        if (
            found is None
            or not _matters(source, reference)
            or is_own_module(context.source, context.project, found[0].name)
        ):
            continue
        if context.covered(source.span(reference.node)) or found[1] in told:
            continue
        if found[1].severity is Severity.INFO:  # nothing to do: once is enough
            told.add(found[1])
        yield _report(context, reference, *found)


def _matters(source: Source, reference: Reference) -> bool:
    """Tell whether the thing itself is used here: called, decorating, or a base class."""
    if reference.call is not None:
        return True
    parent = source.parent(reference.node)
    if isinstance(parent, cst.Arg):
        return isinstance(source.parent(parent), cst.ClassDef)
    return isinstance(parent, cst.Decorator)


def _report(context: Context, reference: Reference, library: Library, use: LibraryUse) -> Proposal:
    optional = comes_optionally(context.source, reference)
    short = reference.name[len(library.name) + 1 :]
    if use.counterparts:
        message = f"`{short}` of {library.name} has a counterpart: {' or '.join(use.counterparts)}."
    else:
        message = f"`{short}` of {library.name} has no counterpart of its own."
    hint = f" {use.similar} replaces it where similar interfaces are allowed (-sim)." if use.similar else ""
    return Proposal(
        rule=RULE,
        span=context.source.span(reference.node),
        severity=min(use.severity, Severity.ADVICE) if optional else use.severity,
        confidence="certain" if reference.certain else "likely",
        message=message,
        action=(f"Use {use.counterparts[0]}." if use.counterparts else library.action) + hint,
        why=f"What differs: {'; '.join(use.differs)}. Source: {use.source}.",
        evidence={
            "library": library.name,
            "counterparts": list(use.counterparts),
            "differs": list(use.differs),
            "optional": optional,
        },
    )
