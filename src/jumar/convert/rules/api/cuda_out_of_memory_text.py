"""## What it does
Finds tests of an error's text against "CUDA out of memory" and takes the word CUDA off:
`'out of memory' in str(error)` is true for every accelerator.

## Why it matters
The NPU says "NPU out of memory". The test stays false, so that the handler raises the error it was
written to survive.

## Example
```python
if 'CUDA out of memory' in str(error):
    batch_size //= 2
```

## Use instead
```python
if 'out of memory' in str(error):
    batch_size //= 2
```

## Fix safety
Safe: text that holds the long form holds the short one.

## References
- torch_npu 2.13 (the text of its error); https://pytorch.org/docs/stable/generated/torch.cuda.OutOfMemoryError.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.literals import Literal, literals

RULE = Rule(
    code="JM118",
    name="cuda-out-of-memory-text",
    summary="An error's text is compared with CUDA's words for running out of memory.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)

_TEXT = re.compile(r"cuda (?=out of memory)", re.IGNORECASE)
_SEARCHES = ("find", "count", "search")


def find(context: Context) -> Iterator[Proposal]:
    """Propose the words that every accelerator uses."""
    for text in literals(context.source):
        match = _TEXT.match(text.body)
        if match is not None and not text.num_fields:
            edit = Replacement(text.start, text.start + match.end(), "")
            asks = _is_searched(context, text)
            yield Proposal(
                rule=RULE,
                span=context.source.span(text.node),
                message='The NPU says "NPU out of memory".',
                replacements=(edit,) if asks else (),
                severity=None if asks else Severity.ADVICE,
                confidence="certain" if asks else "possible",
                action="" if asks else "Catch torch.OutOfMemoryError, or look for 'out of memory'.",
            )


def _is_searched(context: Context, text: Literal) -> bool:
    """Tell whether the text is looked for within another: `in`, `.find()`, `re.search()`."""
    source = context.source
    parent = source.parent(text.node)
    if isinstance(parent, cst.Comparison):
        return parent.left is text.node and isinstance(parent.comparisons[0].operator, (cst.In, cst.NotIn))
    call = source.parent(parent) if isinstance(parent, cst.Arg) else None
    if not isinstance(call, cst.Call) or call.args[0] is not parent or not isinstance(call.func, cst.Attribute):
        return False
    return call.func.attr.value in _SEARCHES
