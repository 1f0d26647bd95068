"""## What it does
Reports switches of cuDNN and of CUDA's own backends: `torch.backends.cudnn.*`,
`torch.backends.cuda.*` and `torch.set_float32_matmul_precision` stay as they are.

## Why it matters
They have no effect on an NPU: determinism, TF32 and algorithm search are set elsewhere there. A
program that relies on `cudnn.deterministic` is not deterministic on the NPU because of it.

## Example
```python
torch.backends.cudnn.deterministic = True
torch.backends.cuda.matmul.allow_tf32 = True
```

## Use instead
```python
torch.use_deterministic_algorithms(True)
torch.npu.matmul.allow_hf32 = True
```

## Fix safety
No fix: the flags do no harm where they are.

## References
- https://pytorch.org/docs/stable/backends.html
- torch_npu 2.13 (`torch.npu.matmul`, `torch.npu.conv`)
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.findings import Severity
from jumar.migrate.edits import Proposal
from jumar.migrate.rules.context import Context
from jumar.rules import Rule

RULE = Rule(
    code="JM110",
    name="cudnn-flag",
    summary="A switch of cuDNN or of CUDA's math libraries is used.",
    severity=Severity.INFO,
    doc=__doc__,
)

_PREFIXES = ("torch.backends.cudnn.", "torch.backends.cuda.")
_NOTES = {
    "torch.backends.cudnn.deterministic": (Severity.ADVICE, "Call torch.use_deterministic_algorithms(True)."),
    "torch.backends.cudnn.allow_tf32": (Severity.INFO, "The NPU's counterpart is torch.npu.conv.allow_hf32."),
    "torch.backends.cuda.matmul.allow_tf32": (Severity.INFO, "The NPU's counterpart is torch.npu.matmul.allow_hf32."),
    "torch.backends.cuda.sdp_kernel": (Severity.ADVICE, "It chooses among CUDA kernels; use torch.nn.attention."),
}


def check(context: Context) -> Iterator[Proposal]:
    """Report every switch of cuDNN and CUDA's math libraries."""
    seen: set[tuple[int, int]] = set()
    for reference in context.source.references:
        if not reference.name.startswith(_PREFIXES):
            continue
        span = context.source.span(reference.node)
        if span in seen:
            continue
        seen.add(span)
        severity, action = _NOTES.get(reference.name, (Severity.INFO, ""))
        yield Proposal(
            rule=RULE,
            span=span,
            severity=severity,
            message=f"`{reference.name}` has no effect on an NPU and was left.",
            action=action,
        )
