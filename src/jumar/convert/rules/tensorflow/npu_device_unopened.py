"""## What it does
Opens the NPU at the top of entry scripts of TensorFlow 2: `npu_device.open().as_default()`, behind the imports.

## Why it matters
Without it TensorFlow 2 computes on the host's CPU. It must come before the first tensor or variable is made.

## Example
```python
import tensorflow as tf
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, y)
```

## Use instead
```python
import tensorflow as tf
import npu_device
npu_device.open().as_default()
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, y)
```

## Fix safety
Safe. Only functions under `tf.function` (also those that Keras makes) run on the NPU.

## References
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr2
- https://www.hiascend.com/document/detail/en/TensorFlowCommercial/800/API/tfadapter2x/tfmigr2_tfadapi_0001.html
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject import preamble
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.tensorflow.program.style import DEVICE_IMPORT, wants_device

RULE = Rule(
    code="JM648",
    name="npu-device-unopened",
    summary="An entry script of TensorFlow 2 does not open the NPU.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)

_OPEN = "npu_device.open().as_default()"


def find(context: Context) -> Iterator[Proposal]:
    """Open the NPU behind the imports."""
    if not wants_device(context):
        return
    source = context.source
    edits = [edit for proposal in context.proposals for edit in proposal.replacements]
    edit = preamble.head(source, len(source.text.text) + 1, edits).line(source, _OPEN)
    yield Proposal(
        rule=RULE, span=(edit.start, edit.start), replacements=(edit,), requires=(DEVICE_IMPORT,),
        message="The NPU is opened and is TensorFlow's device from here on.",
    )  # fmt: skip
