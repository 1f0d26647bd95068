"""## What it does
Empties `tf.device` where it names a GPU: `tf.device('/gpu:0')` becomes `tf.device(None)`, which asks for no device. The
block keeps its layout. Other devices, and names that are computed, are reported.

## Why it matters
The adapter places operators itself, and its guide asks for no `tf.device`. A device that does not exist is an error
where `allow_soft_placement` is not set.

## Example
```python
with tf.device('/gpu:0'):
    logits = network(images)
```

## Use instead
```python
with tf.device(None):
    logits = network(images)
```

## Fix safety
Safe.

## References
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_000019.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.tensorflow.program.change import replaced
from jumar.convert.rules.tensorflow.program.names import calls
from jumar.convert.syntax.scopes import is_named

RULE = Rule(
    code="JM653",
    name="tensorflow-device-scope",
    summary="A device is named for operators that the adapter places itself.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="safe",
)

_GPU = re.compile(r"^[furb]*['\"][^'\"]*gpu", re.IGNORECASE)
_OTHER = re.compile(r"^[furb]*['\"][^'\"]*(?:cpu|npu)", re.IGNORECASE)


def find(context: Context) -> Iterator[Proposal]:
    """Empty the scopes of GPUs, and report the others."""
    for _, _, call in calls(context.source, "device"):
        if len(call.args) != 1 or is_named(call.args[0].value, "None"):
            continue
        value = call.args[0].value
        code = context.source.code(value)
        if _GPU.match(code):
            yield _proposal(context, call, (replaced(context.source, value, "None"),))
        elif not _OTHER.match(code):
            yield _proposal(context, call, ())
        else:
            yield Proposal(
                rule=RULE, span=context.source.span(call), severity=Severity.INFO,
                message=f"Operators under `{code}` stay where they are named.",
                action="Remove the scope where they should run on the NPU.",
            )  # fmt: skip


def _proposal(context: Context, call: cst.Call, edits: tuple[Replacement, ...]) -> Proposal:
    return Proposal(
        rule=RULE, span=context.source.span(call), replacements=edits,
        message="The adapter places operators itself; no GPU is named any more."
        if edits else "A device is computed here, and the adapter places operators itself.",
        action="" if edits else "Remove the scope, or see that it names no GPU.",
    )  # fmt: skip
