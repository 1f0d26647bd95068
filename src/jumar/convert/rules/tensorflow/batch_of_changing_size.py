"""## What it does
Finds `dataset.batch(n)` and `map_and_batch` without `drop_remainder`, and adds `drop_remainder=True`.

## Why it matters
The last batch of an epoch is smaller. The adapter compiles a graph for each shape, or takes its slow path for changing
shapes.

## Example
```python
dataset = tf.data.TFRecordDataset(files).batch(32)
```

## Use instead
```python
dataset = tf.data.TFRecordDataset(files).batch(32, drop_remainder=True)
```

## Fix safety
Unsafe: the last samples of an epoch are left out. For inference, fill the last batch up instead.

## References
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_000019.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context, keyword
from jumar.convert.rules.tensorflow.program.change import has_stars, with_argument
from jumar.convert.rules.tensorflow.program.names import api, references
from jumar.convert.syntax.scopes import is_named
from jumar.convert.syntax.source import Source

RULE = Rule(
    code="JM661",
    name="batch-of-changing-size",
    summary="The last batch of an epoch has another size.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="unsafe",
)

_METHODS = ("batch", "padded_batch")


def find(context: Context) -> Iterator[Proposal]:
    """Add `drop_remainder=True`."""
    source = context.source
    if not any((api(found.name) or "").startswith(("data.", "contrib.data.")) for found in references(source)):
        return
    for call in _batches(source):
        given = keyword(call, "drop_remainder")
        if has_stars(call) or (given is not None and not is_named(given.value, "False")) or _by_position(call):
            continue
        edits = () if given is not None else with_argument(source, call, "drop_remainder=True")
        yield Proposal(
            rule=RULE, span=source.span(call), replacements=edits, safety="unsafe", severity=Severity.ADVICE,
            message="The last batch may be smaller, and each shape is a graph to compile.",
            action="Pass drop_remainder=True where the last samples may be left out.",
        )  # fmt: skip


def _batches(source: Source) -> Iterator[cst.Call]:
    for node in source.methods:
        call = source.called(node)
        if call is not None and call.args and node.attr.value in _METHODS:
            yield call
    for found in references(source):
        name = api(found.name) or ""
        if name.endswith("map_and_batch") and found.call is not None:
            yield found.call


def _by_position(call: cst.Call) -> bool:
    return len(call.args) > 1 and is_named(call.args[1].value, "True")
