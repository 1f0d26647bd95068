"""## What it does
Gives Keras a session with the NPU's configuration in entry scripts of TensorFlow 1 that train a `tf.keras` model and
set no session themselves.

## Why it matters
Keras makes its session at the first use, without a configuration, and trains on the host's CPU.

## Example
```python
import tensorflow as tf
tf.set_random_seed(1)
model = tf.keras.models.load_model(path)
model.fit(x, y)
```

## Use instead
```python
import tensorflow as tf
from npu_bridge.npu_init import RewriterConfig
npu_config = tf.ConfigProto(allow_soft_placement=True)
custom_op = npu_config.graph_options.rewrite_options.custom_optimizers.add()
custom_op.name = 'NpuOptimizer'
npu_config.graph_options.rewrite_options.remapping = RewriterConfig.OFF
npu_config.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
tf.keras.backend.set_session(tf.Session(config=npu_config))
tf.set_random_seed(1)
model = tf.keras.models.load_model(path)
model.fit(x, y)
```

## Fix safety
Safe. `clear_session` takes the session away; such calls are reported. One run of a session is one step: for loops on
the device make the model an NPUEstimator (`model_to_npu_estimator`).

## References
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_000020.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject import preamble
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.tensorflow.program.change import free_name
from jumar.convert.rules.tensorflow.program.configuration import Writing
from jumar.convert.rules.tensorflow.program.names import api, module_name, references, uses
from jumar.convert.rules.tensorflow.program.style import is_entry, style_of
from jumar.convert.syntax.source import Source

RULE = Rule(
    code="JM647",
    name="keras-session",
    summary="Keras trains in a session without the NPU.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)

_TRAINS = frozenset({"fit", "fit_generator", "train_on_batch", "compile"})
_SWITCHES = ("disable_eager_execution", "disable_v2_behavior")
_ACTION = "Call tf.keras.backend.set_session(tf.Session(config=...)) with a configuration that has NpuOptimizer."


def find(context: Context) -> Iterator[Proposal]:
    """Give Keras a session, and report what takes it away."""
    source = context.source
    if style_of(context) != "v1" or not _uses_keras(source):
        return
    for found in uses(source, "keras.backend.clear_session"):
        yield Proposal(
            rule=RULE, span=source.span(found.node), action="Set the session again after it.",
            message="`clear_session` takes away the session that has the NPU's configuration.",
        )  # fmt: skip
    if any(api(found.name) == "keras.backend.set_session" for found in references(source)) or not _trains(source):
        return
    module = module_name(source, source.module.body[-1])
    if module is None or not is_entry(context):
        if is_entry(context):
            yield Proposal(rule=RULE, span=(0, 0), message="Keras trains without the NPU.", action=_ACTION)
        return
    yield _session(context, module)


def _session(context: Context, module: str) -> Proposal:
    source, writing = context.source, Writing.of(context)
    name = free_name(source, "npu_config")
    lines = [
        f"{name} = {module}.ConfigProto(allow_soft_placement=True)",
        *writing.lines(name),
        f"{module}.keras.backend.set_session({module}.Session(config={name}))",
    ]
    edit = _place(context).line(source, "\n".join(lines))
    return Proposal(
        rule=RULE, span=(edit.start, edit.start), replacements=(edit,), requires=writing.requires,
        message="Keras trains on the NPU: its session's configuration has NpuOptimizer.",
    )  # fmt: skip


def _place(context: Context) -> preamble.Place:
    """Return the place behind the imports, and behind what switches TensorFlow 2 to graphs."""
    source = context.source
    switches = [found.call for found in uses(source, *_SWITCHES) if found.call is not None]
    for call in reversed(switches):
        line = source.parent(source.parent(call) or call)
        if isinstance(line, cst.SimpleStatementLine) and isinstance(source.parent(line), cst.Module):
            return preamble.after(source, line)
    return preamble.head(source, len(source.text.text) + 1)


def _uses_keras(source: Source) -> bool:
    return any((api(found.name) or "").startswith("keras.") for found in references(source))


def _trains(source: Source) -> bool:
    return any(node.attr.value in _TRAINS and source.called(node) is not None for node in source.methods)
