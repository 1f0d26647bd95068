"""## What it does
Writes `npu_ops.dropout` for `tf.nn.dropout` in scripts for TensorFlow 1.15; `rate=r` becomes `keep_prob=1 - r`. Where
dropout layers are used (`tf.layers.dropout`, `tf.keras.layers.Dropout`, `SpatialDropout`), the import of
`npu_convert_dropout` is added, which lets them use the adapter's operator.

## Why it matters
The adapter's guide asks for it: TensorFlow's dropout is several operators with a random number for each element.

## Example
```python
h = tf.nn.dropout(h, rate=0.4)
```

## Use instead
```python
h = npu_ops.dropout(h, keep_prob=1 - 0.4)
```

## Fix safety
Safe. The mask is drawn by another generator: watch the accuracy, as the guide says. Not done with `-c`, whose guide
has no such operator.

## References
- https://www.hiascend.com/document/detail/en/TensorFlowCommunity/900/migration/tfmigr1/tfmigr1_000046.html
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_tfadapi_0069.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.subject.context import Context, renamed
from jumar.convert.rules.tensorflow.program.change import has_stars, replaced
from jumar.convert.rules.tensorflow.program.names import api, calls, is_v1, references, writes_v1
from jumar.convert.rules.tensorflow.program.style import adapter, style_of
from jumar.convert.syntax.source import Reference

RULE = Rule(
    code="JM651",
    name="tensorflow-dropout",
    summary="TensorFlow's dropout is used where the adapter has an operator.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="safe",
)

_LAYERS = ("layers.dropout", "layers.Dropout", "keras.layers.Dropout", "keras.layers.SpatialDropout")
_IMPORT = "from npu_bridge.estimator.npu import npu_convert_dropout"
_PLAIN = (cst.Name, cst.Float, cst.Integer, cst.Attribute, cst.Call)


def find(context: Context) -> Iterator[Proposal]:
    """Write the adapter's operator, and import what converts layers."""
    if style_of(context) != "v1" or context.options.tensorflow.compat:
        return
    for _, found, call in calls(context.source, "nn.dropout"):
        yield _changed(context, found, call)
    layer = next((each for each in references(context.source) if (api(each.name) or "").startswith(_LAYERS)), None)
    if layer is not None:
        yield Proposal(
            rule=RULE, span=context.source.span(layer.node), requires=(_IMPORT,), severity=Severity.INFO,
            message="Dropout layers use the adapter's operator once npu_convert_dropout is imported.",
        )  # fmt: skip


def _changed(context: Context, found: Reference, call: cst.Call) -> Proposal:
    source = context.source
    rate = next((arg for arg in call.args if arg.keyword is not None and arg.keyword.value == "rate"), None)
    by_position = len([arg for arg in call.args if arg.keyword is None]) > 1
    root = found.chain[0]
    first = is_v1(found.name) or (isinstance(root, cst.Name) and writes_v1(source, root.value))
    edits: list[Replacement] = [replaced(source, found.node, "npu_ops.dropout")]
    if rate is not None and rate.keyword is not None:
        plain = isinstance(rate.value, _PLAIN) and not rate.value.lpar
        start, end = source.outer_span(rate.value)
        edits += [renamed(source, rate.keyword, "keep_prob"), Replacement(start, start, "1 - " if plain else "1 - (")]
        edits += [] if plain else [Replacement(end, end, ")")]
    if has_stars(call) or (by_position and rate is None and not first):
        edits = []
    return Proposal(
        rule=RULE, span=source.span(call), replacements=tuple(edits),
        requires=(adapter(context).name("npu_ops"),) if edits else (),
        message="`npu_ops.dropout` is the adapter's operator; its mask is drawn by another generator."
        if edits else "Whether the second argument is the share that is kept or dropped cannot be told.",
        action="" if edits else "Pass keep_prob or rate by name and convert again.",
    )  # fmt: skip
