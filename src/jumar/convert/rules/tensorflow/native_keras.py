"""## What it does
Reports imports of the package `keras` itself in scripts of TensorFlow.

## Why it matters
The adapter supports `tf.keras` only.

## Example
```python
from keras.layers import Dense
```

## Use instead
```python
from tensorflow.keras.layers import Dense
```

## Fix safety
No fix: the two packages differ between versions.

## References
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_000020.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.model.spans import Span
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.places import is_own_module, summary
from jumar.convert.syntax.source import imported_name

RULE = Rule(
    code="JM668",
    name="native-keras",
    summary="Keras itself is imported, and the adapter supports tf.keras only.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(context: Context) -> Iterator[Proposal]:
    """Report the imports of a file."""
    source = context.source
    spans: list[Span] = []
    for alias in source.nodes(cst.ImportAlias):
        name = imported_name(alias, source.parent(alias)) or ""
        if name == "keras" or name.startswith("keras."):
            spans.append(source.span(alias))
    if spans and not is_own_module(source, context.project, "keras"):
        yield from summary(
            source, RULE, spans, "The package keras is imported; the adapter supports tf.keras only",
            severity=Severity.WARNING, action="Import the same names from tensorflow.keras.",
        )  # fmt: skip
