"""## What it does
Finds torch.cuda where it is reached by a string: `getattr(torch, 'cuda')`, `hasattr(torch, 'cuda')`,
`importlib.import_module('torch.cuda')`, and names of it in `getattr(torch.cuda, 'CUDAGraph')`. The string
changes as the name would.

## Why it matters
Such code looks as if it asked what is there, and goes on finding CUDA's module, which every build of
PyTorch has and which raises when it is used.

## Example
```python
backend = getattr(torch, 'cuda')
streams = importlib.import_module('torch.cuda')
```

## Use instead
```python
backend = getattr(torch, 'npu')
streams = importlib.import_module('torch.npu')
```

## Fix safety
Safe. A name without counterpart is left and reported.

## References
- torch_npu 2.13 (registers itself as `torch.npu`)
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.literals import Literal, literal
from jumar.convert.targets.base import Edits

RULE = Rule(
    code="JM119",
    name="cuda-by-name",
    summary="torch.cuda, or a part of it, is reached by a string.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)

_LOOKUPS = ("builtins.getattr", "builtins.hasattr")
_IMPORTERS = ("importlib.import_module", "builtins.__import__")


def find(context: Context) -> Iterator[Proposal]:
    """Propose the target's name in each string that names torch.cuda or a part of it."""
    source = context.source
    for call in source.nodes(cst.Call):
        name = source.qualified(call.func)
        if name in _LOOKUPS and len(call.args) >= 2:
            yield from _lookup(context, call)
        elif name in _IMPORTERS and call.args:
            text = literal(source, call.args[0].value)
            if text is not None and not text.num_fields and text.body == "torch.cuda":
                yield _proposal(context, text, context.dialect.module_name(text), "imports torch.cuda")


def _lookup(context: Context, call: cst.Call) -> Iterator[Proposal]:
    source = context.source
    owner, text = source.qualified(call.args[0].value), literal(source, call.args[1].value)
    if text is None or text.num_fields:
        return
    if owner == "torch" and text.is_bare:
        yield _proposal(context, text, context.dialect.device_literal(text), "looks torch.cuda up")
    elif owner == "torch.cuda" and source.qualified(call.func) == "builtins.getattr":
        other = context.dialect.counterpart(f"torch.cuda.{text.body}")
        new = (other.name or "").rpartition(".")[2]
        if other.kind == "missing":
            yield Proposal(
                rule=RULE, span=source.span(text.node), action=other.hint, severity=Severity.WARNING,
                message=f"torch.cuda.{text.body} has no counterpart on {context.dialect.where}, so its name was left.",
            )  # fmt: skip
        elif context.dialect.target == "npu" and other.kind == "renamed":
            yield _proposal(context, text, (text.rename(text.body, new),), f"is {other.name}")


def _proposal(context: Context, text: Literal, edits: Edits | None, what: str) -> Proposal:
    return Proposal(
        rule=RULE,
        span=context.source.span(text.node),
        message=f"{context.source.code(text.node)} {what}.",
        replacements=edits or (),
        action="" if edits else "Write it for every device the program runs on.",
    )
