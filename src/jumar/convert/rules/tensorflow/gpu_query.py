"""## What it does
Removes statements that set up GPUs (`set_memory_growth`, `set_visible_devices`, `set_virtual_device_configuration`),
and reports questions for GPUs (`is_gpu_available`, `list_physical_devices('GPU')`, `is_built_with_cuda`).

## Why it matters
On a machine with NPUs TensorFlow sees no GPU: the lists are empty, so that `gpus[0]` fails, and tests are false, so
that the script takes its path for the CPU. That path is often right (`channels_last`), and sometimes stops the script.

## Example
```python
gpus = tf.config.experimental.list_physical_devices('GPU')
tf.config.experimental.set_memory_growth(gpus[0], True)
```

## Use instead
```python
gpus = tf.config.experimental.list_physical_devices('GPU')
```

## Fix safety
Safe.

## References
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_000019.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.tensorflow.program.change import removed_all
from jumar.convert.rules.tensorflow.program.names import api, references

RULE = Rule(
    code="JM655",
    name="tensorflow-gpu-query",
    summary="TensorFlow's GPUs are set up or asked for.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="safe",
)

_SETTERS = (
    "set_memory_growth", "set_visible_devices", "set_virtual_device_configuration", "set_logical_device_configuration",
)  # fmt: skip
_QUESTIONS = (
    "is_gpu_available", "is_built_with_cuda", "is_built_with_gpu_support", "gpu_device_name", "list_physical_devices",
    "list_logical_devices", "list_local_devices", "is_built_with_rocm",
)  # fmt: skip


def find(context: Context) -> Iterator[Proposal]:
    """Remove what sets up GPUs, and report what asks for them."""
    source = context.source
    setters: dict[cst.CSTNode, str] = {}
    for found in references(source):
        name = api(found.name) or ""
        last = name.rpartition(".")[2]
        if last in _SETTERS and name.startswith("config.") and found.call is not None:
            setters[found.call] = last
        elif last in _QUESTIONS and found.call is not None and _is_about_gpus(context, found.call, last):
            yield Proposal(
                rule=RULE, span=source.span(found.call), severity=Severity.INFO,
                message=f"`{last}` finds no GPU on a machine with NPUs: the script takes its path without one.",
                action="See that it does not stop there.",
            )  # fmt: skip
    statements = [call for call in setters if isinstance(source.parent(call), cst.Expr)]
    edits = removed_all(source, statements)
    for call, name in setters.items():
        edit = edits.get(call)
        yield Proposal(
            rule=RULE, span=source.span(call), replacements=(edit,) if edit is not None else (),
            message=f"`{name}` sets up a GPU, and there is none.", action="" if edit else "Remove it.",
        )  # fmt: skip


def _is_about_gpus(context: Context, call: cst.Call, name: str) -> bool:
    if not name.startswith("list_") or name == "list_local_devices":
        return True
    return not call.args or "GPU" in context.source.code(call).upper()
