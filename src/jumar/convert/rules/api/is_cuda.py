"""## What it does
Renames the tensor property `is_cuda` to `is_npu`; for `--target agnostic` it becomes
`device.type != 'cpu'`. Where it decides between code paths, the rule on
device guards judges it first. An attribute `is_cuda` that a class of the file sets itself stays.

## Why it matters
`is_cuda` is False for a tensor on an NPU, so code behind it is silently skipped.

## Example
```python
flags = [x.is_cuda for x in tensors]
```

## Use instead
```python
flags = [x.is_npu for x in tensors]
```

## Fix safety
Safe.

## References
- torch_npu 2.13 (`torch.Tensor.is_npu`)
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.receivers import Receivers

RULE = Rule(
    code="JM104",
    name="is-cuda",
    summary="A tensor is asked whether it is on CUDA.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose `.is_npu` for every `.is_cuda` of a tensor."""
    source, receivers = context.source, Receivers(context.source, "is_cuda")
    for node in source.nodes(cst.Attribute):
        if node.attr.value != "is_cuda" or node in source.tree.stored or context.covered(source.span(node.attr)):
            continue
        if source.called(node) is None and receivers.classify(node.value) != "own":
            yield Proposal(
                rule=RULE,
                span=source.span(node.attr),
                message="`.is_cuda` is False for a tensor on an NPU.",
                replacements=context.dialect.is_cuda(node),
            )
