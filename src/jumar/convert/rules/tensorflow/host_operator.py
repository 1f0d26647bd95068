"""## What it does
Reports operators that an NPU does not compute: Python functions (`py_func`), strings, sparse tensors, lookup tables.

## Why it matters
The adapter sends whole graphs to the NPU. One operator that has no kernel there ends the run with an error, unless
the graph is mixed (`mix_compile_mode`), or the operator is in the functions of a `tf.data` pipeline, which runs on
the host.

## Example
```python
y = tf.py_func(augment, [x], tf.float32)
```

## Use instead
```python
custom_op.parameter_map["mix_compile_mode"].b = True
y = tf.py_func(augment, [x], tf.float32)
```

## Fix safety
No fix: where the operator runs is a decision.

## References
- https://www.hiascend.com/document/detail/zh/canncommercial/700/modeldev/tfmigr1/tfmigr1_000003.html
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.model.spans import Span
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.places import summary
from jumar.convert.rules.tensorflow.program.names import api, references

RULE = Rule(
    code="JM660",
    name="host-operator",
    summary="An operator runs on the host, not on an NPU.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

_KINDS = (
    ("Python functions", re.compile(r"(?:compat\.v1\.)?(?:py_func|py_function|numpy_function)")),
    ("Operators on strings", re.compile(r"strings\..*|string_\w+|as_string|regex_\w+|substr|reduce_join|decode_raw")),
    ("Sparse tensors", re.compile(r"sparse\..*|sparse_\w+|SparseTensor|SparseTensorValue|IndexedSlices")),
    ("Lookup tables", re.compile(r"lookup\..*|contrib\.lookup\..*|tables_initializer")),
    ("Ragged tensors", re.compile(r"ragged\..*|RaggedTensor.*")),
)


def find(context: Context) -> Iterator[Proposal]:
    """Report each kind of operator once."""
    places: dict[str, list[Span]] = defaultdict(list)
    names: dict[str, set[str]] = defaultdict(set)
    for found in references(context.source):
        name = api(found.name) or ""
        for kind, pattern in _KINDS:
            if pattern.fullmatch(name) and not name.endswith("placeholder"):
                places[kind].append(context.source.span(found.node))
                names[kind].add(name)
    for kind, spans in places.items():
        yield from summary(
            context.source, RULE, spans, f"{kind} run on the host", severity=Severity.ADVICE, confidence="likely",
            evidence={"names": [*sorted(names[kind])]},
            action="Keep them to the functions of tf.data, or set mix_compile_mode.",
        )  # fmt: skip
