"""## What it does
Looks at the strings and names of a script of TensorFlow once more, and reports those that name a GPU and that no other
rule spoke of.

## Why it matters
"Nothing is left for you" is said only where this finds nothing.

## Example
```python
devices = ['/gpu:0', '/gpu:1']
```

## Use instead
```python
devices = [None, None]
```

## Fix safety
No fix.

## References
- jumar docs guide-convert-tensorflow
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.literals import literals
from jumar.convert.syntax.source import imported_name

RULE = Rule(
    code="JM667",
    name="gpu-left-over",
    summary="A GPU is named, and no rule resolved it.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

_DEVICE = re.compile(r"(?:/(?:job:[^/]*|replica:[^/]*|task:[^/]*))*/?(?:device:)?gpu:?(?:\d+|\*|%d|)$", re.IGNORECASE)
_MODULES = re.compile(r"(?:pycuda|cupy|pynvml|nvidia|GPUtil|tensorrt|nvgpu)(?:\.|$)")


def find(context: Context) -> Iterator[Proposal]:
    """Report the GPUs that are left."""
    source = context.source
    for text in literals(source):
        span = source.span(text.node)
        if _DEVICE.match(text.body) and not context.within_covered(span):
            yield _proposal(context, span, f"`{source.code(text.node)}` may name a GPU")
    for alias in source.nodes(cst.ImportAlias):
        name = imported_name(alias, source.parent(alias)) or ""
        if _MODULES.match(name):
            yield _proposal(context, source.span(alias), f"`{name}` is a library for GPUs")


def _proposal(context: Context, span: tuple[int, int], message: str) -> Proposal:
    del context
    return Proposal(
        rule=RULE, span=span, message=f"{message}, and no rule resolved it.", confidence="likely",
        action="If it means the accelerator, write it for the NPU by hand.",
    )  # fmt: skip
