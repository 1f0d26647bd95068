"""## What it does
Writes the adapter's classes for those of `tf.estimator`: `RunConfig` becomes `NPURunConfig`, `Estimator`
becomes `NPUEstimator`, `EstimatorSpec` becomes `NPUEstimatorSpec`, `tf.keras.estimator.model_to_estimator` becomes
`model_to_npu_estimator`. Arguments by position that have another place there are passed by keyword. Estimators
that TensorFlow brings (`DNNClassifier`) are reported.

## Why it matters
`tf.estimator.Estimator` makes its sessions itself, so that no configuration of the script reaches the NPU.
NPURunConfig begins with other parameters than RunConfig: an argument by position would mean something else.

## Example
```python
config = tf.estimator.RunConfig(model_dir, save_checkpoints_steps=100)
classifier = tf.estimator.Estimator(model_fn=model_fn, config=config)
```

## Use instead
```python
config = NPURunConfig(model_dir=model_dir, save_checkpoints_steps=100)
classifier = NPUEstimator(model_fn=model_fn, config=config)
```

## Fix safety
Safe. NPURunConfig writes no summaries unless `save_summary_steps` is passed; RunConfig writes one every 100 steps.

## References
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_000018.html
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_tfadapi_0023.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.tensorflow.program.change import keyword_for, replaced, with_argument
from jumar.convert.rules.tensorflow.program.names import api, references
from jumar.convert.rules.tensorflow.program.style import adapter
from jumar.convert.syntax.source import Reference, Source

RULE = Rule(
    code="JM644",
    name="tensorflow-estimator",
    summary="A class of tf.estimator makes its sessions without the NPU.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)

_NEW: Mapping[str, str] = {
    "estimator.RunConfig": "NPURunConfig",
    "estimator.Estimator": "NPUEstimator",
    "estimator.EstimatorSpec": "NPUEstimatorSpec",
    "keras.estimator.model_to_estimator": "model_to_npu_estimator",
}
_POSITIONS: Mapping[str, tuple[str, ...]] = {
    "estimator.RunConfig": (
        "model_dir", "tf_random_seed", "save_summary_steps", "save_checkpoints_steps", "save_checkpoints_secs",
        "session_config", "keep_checkpoint_max", "keep_checkpoint_every_n_hours", "log_step_count_steps",
    ),
    "estimator.Estimator": ("", "", "", "", "warm_start_from"),
    "estimator.EstimatorSpec": (),
    "keras.estimator.model_to_estimator": (),
}  # fmt: skip
"""The keyword that an argument by position needs in the adapter's class; empty: it has the same place."""
_BROUGHT = ("DNN", "Linear", "Baseline", "BoostedTrees", "WarmStartSettings")
_KERAS = "from npu_bridge.estimator.npu.keras_to_npu import model_to_npu_estimator"


def find(context: Context) -> Iterator[Proposal]:
    """Write the adapter's classes."""
    for found in references(context.source):
        name = api(found.name) or ""
        if name in _NEW and found.certain:
            if found.call is not None or _is_base(context.source, found.node):
                yield _renamed(context, found, name)
        elif name.startswith("estimator.") and name[10:].startswith(_BROUGHT) and found.call is not None:
            yield Proposal(
                rule=RULE, span=context.source.span(found.node),
                message=f"`{name[10:]}` makes its sessions itself; the adapter has no class for it.",
                action="Write its model as a model_fn for NPUEstimator.",
            )  # fmt: skip


def _is_base(source: Source, node: cst.CSTNode) -> bool:
    parent = source.parent(node)
    return isinstance(parent, cst.Arg) and isinstance(source.parent(parent), cst.ClassDef)


def _renamed(context: Context, found: Reference, name: str) -> Proposal:
    source, new = context.source, _NEW[name]
    edits: list[Replacement] = [replaced(source, found.node, new)]
    if found.call is not None:
        edits += _keywords(source, found.call, _POSITIONS[name])
        if new == "NPUEstimator" and keyword_for(found.call, 2, "config") is None and not _unpacks(found.call):
            edits += with_argument(source, found.call, "config=NPURunConfig()")
    needed = [_KERAS if new == "model_to_npu_estimator" else adapter(context).name(new)]
    if any("NPURunConfig()" in edit.text for edit in edits):
        needed.append(adapter(context).name("NPURunConfig"))
    return Proposal(
        rule=RULE, span=source.span(found.node), message=f"`{new}` runs on the NPU what `{name}` runs on the host.",
        replacements=tuple(edits), requires=tuple(needed),
    )  # fmt: skip


def _unpacks(call: cst.Call) -> bool:
    return any(arg.star for arg in call.args)


def _keywords(source: Source, call: cst.Call, names: tuple[str, ...]) -> list[Replacement]:
    """Return the insertions of keywords before arguments by position that have another place."""
    found = []
    for index, arg in enumerate(call.args):
        if arg.keyword is not None or arg.star or index >= len(names):
            break
        if names[index]:
            at = source.span(arg)[0]
            found.append(Replacement(at, at, f"{names[index]}="))
    return found
