"""## What it does
Reports tensors of float64, complex64 and complex128.

## Why it matters
The adapter does not support these types.

## Example
```python
x = tf.placeholder(tf.float64, [8, 4])
```

## Use instead
```python
x = tf.placeholder(tf.float32, [8, 4])
```

## Fix safety
No fix: fewer digits may matter.

## References
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/82RC1/migration/tfmigr2/tfmigr2_000004.html
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.places import summary
from jumar.convert.rules.tensorflow.program.names import api, references

RULE = Rule(
    code="JM666",
    name="tensorflow-unsupported-dtype",
    summary="A type is used that the adapter does not support.",
    severity=Severity.WARNING,
    doc=__doc__,
)

_TYPES = ("float64", "double", "complex64", "complex128", "dtypes.float64", "variant")


def find(context: Context) -> Iterator[Proposal]:
    """Report the types of a file."""
    source = context.source
    spans = [source.span(found.node) for found in references(source) if api(found.name) in _TYPES]
    yield from summary(
        source, RULE, spans, "The adapter does not support float64 and complex numbers", severity=Severity.WARNING,
        action="Use float32.", confidence="likely", evidence={"names": list(_TYPES)},
    )  # fmt: skip
