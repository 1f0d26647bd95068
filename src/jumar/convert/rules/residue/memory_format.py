"""## What it does
Reports `torch.channels_last` and `torch.channels_last_3d`, once a file.

## Why it matters
NPU tensors take `torch.contiguous_format` and `torch.preserve_format` only; the NPU keeps its own blocked formats
inside. A model moved with `memory_format=torch.channels_last` raises or is left as it was, and nothing gets faster.

## Example
```python
model = model.to(memory_format=torch.channels_last)
```

## Use instead
```python
model = model.to(device)
```

## Fix safety
No fix: the argument can stand in conditions that other code reads.

## References
- Ascend/pytorch `docs/zh/api/native_api/pytorch_2-13-0/torch-Tensor.md` (limits of memory_format)
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.places import distinct, summary

RULE = Rule(
    code="JM137",
    name="memory-format",
    summary="A channels-last memory format is asked for.",
    severity=Severity.WARNING,
    doc=__doc__,
)


_FORMATS = frozenset({"torch.channels_last", "torch.channels_last_3d"})


def find(context: Context) -> Iterator[Proposal]:
    """Report the memory formats that NPU tensors do not take."""
    source = context.source
    spans = [source.span(reference.node) for reference in distinct(source.references) if reference.name in _FORMATS]
    yield from summary(
        source,
        RULE,
        spans,
        "A channels-last format is used, which NPU tensors do not take",
        severity=Severity.WARNING,
        action="Leave memory_format out on an NPU; it blocks the channels itself.",
    )
