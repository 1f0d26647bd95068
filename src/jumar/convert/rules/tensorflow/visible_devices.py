"""## What it does
Writes `ASCEND_DEVICE_ID` for `CUDA_VISIBLE_DEVICES` where one device is chosen, and reports others of CUDA, NCCL
and of TensorFlow on GPUs.

## Why it matters
`CUDA_VISIBLE_DEVICES` has no effect on NPUs. `ASCEND_DEVICE_ID` tells a process of TensorFlow its one device.

## Example
```python
os.environ['CUDA_VISIBLE_DEVICES'] = '0'
```

## Use instead
```python
os.environ['ASCEND_DEVICE_ID'] = '0'
```

## Fix safety
Safe where the value is one number; else unsafe, because `ASCEND_DEVICE_ID` takes one number and no list.

## References
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_000001.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Safety, Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.literals import Literal, literals

RULE = Rule(
    code="JM654",
    name="tensorflow-visible-devices",
    summary="An environment variable of a GPU is used in a script of TensorFlow.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="unsafe",
)

_CHOICE = "CUDA_VISIBLE_DEVICES"
_NAME = re.compile(r"(CUDA|NCCL|CUDNN)_[A-Z0-9_]+|TF_(GPU|XLA|CUDNN|FORCE_GPU|ENABLE_AUTO_MIXED|USE_CUDNN)\w*")


def find(context: Context) -> Iterator[Proposal]:
    """Write the NPU's variable, or report that there is none."""
    for text in literals(context.source):
        if text.num_fields or not _NAME.fullmatch(text.body):
            continue
        if text.body == _CHOICE:
            yield _choice(context, text)
        else:
            yield Proposal(
                rule=RULE, span=context.source.span(text.node), severity=Severity.ADVICE,
                message=f"{text.body} has no effect on an NPU.", action=_action(text.body),
            )  # fmt: skip


def _action(name: str) -> str:
    if "MIXED" in name:
        return "Set precision_mode to allow_mix_precision in the session's configuration."
    return "Remove it."


def _choice(context: Context, text: Literal) -> Proposal:
    value = _value(context, text.node)
    number = value is not None and re.fullmatch(r"[rfub]*['\"]\d+['\"]", value) is not None
    safety: Safety = "safe" if number else "unsafe"
    hidden = value is not None and re.fullmatch(r"['\"](-1)?['\"]", value) is not None
    edits = () if hidden else (Replacement(text.start, text.start + len(text.body), "ASCEND_DEVICE_ID"),)
    return Proposal(
        rule=RULE, span=context.source.span(text.node), replacements=edits, safety=safety,
        severity=None if number else Severity.ADVICE if hidden else Severity.WARNING,
        message="All GPUs are hidden here, which hides no NPU." if hidden
        else f"{_CHOICE} has no effect on an NPU; ASCEND_DEVICE_ID takes one number.",
        action="Do not convert a script that shall run on the CPU." if hidden
        else "" if number else "Give each process one number.",
    )  # fmt: skip


def _value(context: Context, node: cst.CSTNode) -> str | None:
    """Return the code of what an environment variable is set to (`os.environ[NAME] = value`), or None."""
    source = context.source
    index = source.enclosing(node, cst.Subscript)
    parent = source.parent(index) if index is not None else None
    assign = source.parent(parent) if parent is not None else None
    return source.code(assign.value) if isinstance(assign, cst.Assign) else None
