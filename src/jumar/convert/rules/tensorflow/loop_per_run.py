"""## What it does
Names the place where several training steps can run on the device for one call: `iterations_per_loop` of NPURunConfig,
and sessions that train in a loop of Python.

## Why it matters
With one step a call, the host and the NPU wait for each other after every step.

## Example
```python
train_op = tf.train.AdamOptimizer(1e-3).minimize(loss)
for step in range(10000):
    sess.run(train_op)
```

## Use instead
```python
custom_op.parameter_map["iterations_per_loop"].i = 100
custom_op.parameter_map["enable_data_pre_proc"].b = True
train_op = util.set_iteration_per_loop(sess, train_op, 100)
for step in range(100):
    sess.run(train_op)
```

## Fix safety
No fix: logging, checkpoints and learning rates of the script count calls. Data must come from `tf.data`.

## References
- https://www.hiascend.com/doc_center/source/zh/canncommercial/5046/modeldev/tfmigr/tfmigr_tfadapi_0004.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context, keyword
from jumar.convert.rules.tensorflow.program.names import api, references
from jumar.convert.rules.tensorflow.program.style import style_of

RULE = Rule(
    code="JM662",
    name="loop-per-run",
    summary="Each call of a session is one training step.",
    severity=Severity.INFO,
    doc=__doc__,
)


def find(context: Context) -> Iterator[Proposal]:
    """Name the first loop of sessions, and each RunConfig."""
    source = context.source
    if style_of(context) != "v1":
        return
    for found in references(source):
        if api(found.name) == "estimator.RunConfig" and found.call and not keyword(found.call, "iterations_per_loop"):
            yield _proposal(context, found.node, "NPURunConfig runs one step a call; iterations_per_loop takes more.")
    for node in source.methods:
        call = source.called(node)
        if node.attr.value != "run" or call is None or keyword(call, "feed_dict") is not None or len(call.args) != 1:
            continue
        if source.enclosing(call, cst.For, cst.While) is not None and "train" in source.code(call.args[0]):
            yield _proposal(context, call, "One call is one training step here.")
            return


def _proposal(context: Context, node: cst.CSTNode, message: str) -> Proposal:
    return Proposal(
        rule=RULE, span=context.source.span(node), severity=Severity.INFO, message=message,
        action="Once it runs, set iterations_per_loop.",
    )  # fmt: skip
