"""## What it does
Writes the adapter's way to give all processes the first values of the variables: `BroadcastGlobalVariablesHook` becomes
`NPUBroadcastGlobalVariablesHook`, `BroadcastGlobalVariablesCallback` becomes `NPUBroadcastGlobalVariablesCallback`,
and `broadcast_global_variables` becomes a broadcast of each floating variable. In TensorFlow 2 the callback is
reported.

## Why it matters
Each process draws its own first values. Without the broadcast the processes train different models.

## Example
```python
import horovod.tensorflow as hvd
hooks = [hvd.BroadcastGlobalVariablesHook(0), tf.train.StopAtStepHook(last_step=100)]
```

## Use instead
```python
hooks = [NPUBroadcastGlobalVariablesHook(0, int(os.getenv('RANK_ID', '0'))), tf.train.StopAtStepHook(last_step=100)]
```

## Fix safety
Safe.

## References
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_000024.html
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_000014.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.tensorflow.program.change import keyword_for, replaced
from jumar.convert.rules.tensorflow.program.configuration import module_of
from jumar.convert.rules.tensorflow.program.horovod import RANK_ID
from jumar.convert.rules.tensorflow.program.names import horovod, references
from jumar.convert.rules.tensorflow.program.style import adapter, style_of
from jumar.convert.syntax.source import Reference

RULE = Rule(
    code="JM650",
    name="horovod-broadcast",
    summary="Horovod gives all processes the first values of the variables.",
    severity=Severity.ERROR,
    doc=__doc__,
    safety="safe",
)

_HOOK, _CALLBACK, _OPERATOR = (
    "BroadcastGlobalVariablesHook",
    "callbacks.BroadcastGlobalVariablesCallback",
    "broadcast_global_variables",
)
_V2 = "Call npu_device.distribute.broadcast(model.trainable_variables, root_rank=0) once the model is built."


def find(context: Context) -> Iterator[Proposal]:
    """Write the adapter's broadcasts."""
    for found in references(context.source):
        name = horovod(found.name)
        if name not in (_HOOK, _CALLBACK, _OPERATOR):
            continue
        made = None
        if found.certain and found.call is not None and style_of(context) == "v1":
            made = _change(context, name, found)
        edits, needed = made or ((), ())
        yield Proposal(
            rule=RULE, span=context.source.span(found.node), replacements=edits, requires=needed,
            message="All NPUs begin with the variables of one." if made else f"`{name}` has no counterpart here.",
            action="" if made else _V2,
        )  # fmt: skip


def _change(context: Context, name: str, found: Reference) -> tuple[tuple[Replacement, ...], tuple[str, ...]]:
    source, call, names = context.source, found.call, adapter(context)
    assert call is not None
    root = _root(context, call)
    if name == _HOOK:
        text = f"NPU{_HOOK}({root}, {RANK_ID.replace(chr(34), context.quote)})"
        return (replaced(source, call, text),), (names.name(f"NPU{_HOOK}"), "import os")
    if name == _CALLBACK:
        new = "NPUBroadcastGlobalVariablesCallback"
        return (replaced(source, call, f"{new}({root})"),), (names.name(new),)
    module, needed = module_of(source, None, call)
    each = f"{module}.assign(v, hccl_ops.broadcast(tensor=[v], root_rank={root})[0])"
    text = f"{module}.group([{each} for v in {module}.global_variables() if v.dtype.is_floating])"
    return (replaced(source, call, text),), (names.name("hccl_ops"), *needed)


def _root(context: Context, call: cst.Call) -> str:
    given = keyword_for(call, 0, "root_rank")
    return context.source.code(given.value) if given is not None else "0"
