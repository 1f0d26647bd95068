"""## What it does
Notes pinned host memory (`pin_memory=True`, `.pin_memory()`, `pin_memory_device=`) and checkpointing's
`preserve_rng_state`, once a file each: what asks for the current accelerator without naming it.

## Why it matters
Both work on an NPU, for the accelerator that PyTorch finds: pinning needs `torch_npu` imported before the loader
starts. A device that is named for pinning must be the NPU.

## Example
```python
loader = DataLoader(data, pin_memory=True)
```

## Use instead
```python
import torch_npu
loader = DataLoader(data, pin_memory=True)
```

## Fix safety
No fix: nothing has to change.

## References
- https://pytorch.org/docs/stable/data.html#memory-pinning
- torch_npu 2.13 (migration guide: pin_memory)
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.model.spans import Span
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.places import summary
from jumar.convert.syntax.scopes import is_named
from jumar.convert.syntax.source import Source

RULE = Rule(
    code="JM143",
    name="pinned-memory",
    summary="Host memory is pinned for the current accelerator.",
    severity=Severity.INFO,
    doc=__doc__,
)


def find(context: Context) -> Iterator[Proposal]:
    """Report pinned memory and preserved random states once a file."""
    source = context.source
    yield from summary(
        source, RULE, list(_pinned(source)), "Host memory is pinned for the accelerator that PyTorch finds",
        severity=Severity.INFO, action="Import torch_npu before workers start; nothing else has to change.",
    )  # fmt: skip
    yield from summary(
        source, RULE, list(_keywords(source, "preserve_rng_state")),
        "Checkpointing keeps the random state of the accelerator that PyTorch finds", severity=Severity.INFO,
    )  # fmt: skip


def _pinned(source: Source) -> Iterator[Span]:
    yield from _keywords(source, "pin_memory")
    yield from _keywords(source, "pin_memory_device")
    for node in source.methods:
        if node.attr.value == "pin_memory" and source.called(node) is not None:
            yield source.span(node.attr)


def _keywords(source: Source, name: str) -> Iterator[Span]:
    for argument in source.nodes(cst.Arg):
        if (
            argument.keyword is not None
            and argument.keyword.value == name
            and not is_named(argument.value, "False", "None")
        ):
            yield source.span(argument)
