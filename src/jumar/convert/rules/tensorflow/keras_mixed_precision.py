"""## What it does
Writes the adapter's `NpuLossScaleOptimizer` for Keras' `LossScaleOptimizer` in scripts of TensorFlow 2, and
reports mixed precision policies.

## Why it matters
The adapter finds overflows on the NPU itself; Keras' own optimizer looks for infinite gradients, which an NPU in
saturation mode never makes.

## Example
```python
optimizer = tf.keras.mixed_precision.LossScaleOptimizer(optimizer)
```

## Use instead
```python
optimizer = npu_device.train.optimizer.NpuLossScaleOptimizer(optimizer)
```

## Fix safety
Safe. In scripts of TensorFlow 1, the loss scaling of `tf.keras` cannot be converted and is reported.

## References
- https://hiascend.com/document/detail/zh/TensorFlowCommercial/800/migration/tfmigr2/tfmigr2_000010.html
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.tensorflow.program.change import replaced
from jumar.convert.rules.tensorflow.program.names import api, references
from jumar.convert.rules.tensorflow.program.style import DEVICE_IMPORT, style_of

RULE = Rule(
    code="JM657",
    name="keras-mixed-precision",
    summary="Keras' mixed precision is for GPUs.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)

_NEW = "npu_device.train.optimizer.NpuLossScaleOptimizer"
_POLICIES = ("set_global_policy", "set_policy", "Policy")


def find(context: Context) -> Iterator[Proposal]:
    """Write the adapter's optimizer, and report policies."""
    source = context.source
    for found in references(source):
        name = api(found.name) or ""
        if not name.startswith("keras.mixed_precision.") or found.call is None:
            continue
        last = name.rpartition(".")[2]
        if last == "LossScaleOptimizer":
            edits: tuple[Replacement, ...] = ()
            if style_of(context) == "v2" and found.certain and name == "keras.mixed_precision.LossScaleOptimizer":
                edits = (replaced(source, found.node, _NEW),)
            yield Proposal(
                rule=RULE, span=source.span(found.node), replacements=edits, requires=(DEVICE_IMPORT,) if edits else (),
                message="`NpuLossScaleOptimizer` sees overflows of the NPU." if edits
                else "This loss scale of Keras is not one that the adapter can replace.",
                action="" if edits else "Use tf.keras.mixed_precision.LossScaleOptimizer of TensorFlow 2.",
            )  # fmt: skip
        elif last in _POLICIES:
            yield Proposal(
                rule=RULE, span=source.span(found.node), severity=Severity.ADVICE,
                message="The policy casts in the model; the adapter's own mixed precision chooses by operator.",
                action='Set npu_device.global_options().precision_mode = "allow_mix_precision" before the NPU is '
                "opened, and leave the policy out.",
            )  # fmt: skip
