"""## What it does
Finds `map_location` arguments that name CUDA devices by a dictionary or a function, and restored random states of
CUDA. (A plain string is converted by JM102, a missing `map_location` is JM112.)

## Why it matters
The keys of such a dictionary are devices *as the checkpoint was saved*: `cuda:0` for old checkpoints, `npu:0` for
those written after the conversion. A map that knows one kind only leaves the tensors of the other where they
cannot be restored.

## Example
```python
state = torch.load(path, map_location={'cuda:0': f'cuda:{rank}'})
```

## Use instead
```python
state = torch.load(path, map_location='cpu')
```

## Fix safety
No fix: loading to the CPU and copying with `load_state_dict` is right for both kinds, but moves tensors that the
program may use directly.

## References
- https://pytorch.org/docs/stable/generated/torch.load.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.literals import literal
from jumar.convert.syntax.source import Source
from jumar.convert.syntax.tree import descendants

RULE = Rule(
    code="JM139",
    name="checkpoint-device",
    summary="A checkpoint is mapped from or to CUDA devices by a dictionary or function.",
    severity=Severity.WARNING,
    doc=__doc__,
)


def find(context: Context) -> Iterator[Proposal]:
    """Report values of map_location that name CUDA devices."""
    source = context.source
    for argument in source.nodes(cst.Arg):
        if argument.keyword is not None and argument.keyword.value == "map_location":
            value = _followed(source, argument.value)
            if isinstance(value, cst.Dict):
                yield from _dictionary(source, argument, value)
            elif isinstance(value, cst.Lambda) and _moves_to_cuda(source, value):
                yield _function(source, argument)


def _followed(source: Source, node: cst.BaseExpression) -> cst.BaseExpression:
    """Return what a name is bound to, where one assignment tells; else the node itself."""
    if isinstance(node, cst.Name):
        bindings = source.scope(node).bindings_of(node.value)
        if len(bindings) == 1 and bindings[0].value is not None:
            return bindings[0].value
    return node


def _dictionary(source: Source, argument: cst.Arg, value: cst.Dict) -> Iterator[Proposal]:
    keys = [
        source.code(element.key)
        for element in value.elements
        if isinstance(element, cst.DictElement) and _names_cuda(source, element.key)
    ]
    if keys:
        yield Proposal(
            rule=RULE,
            span=source.span(argument),
            message=f"map_location maps {', '.join(keys)}, which is how a checkpoint of CUDA names its devices; "
            "one written on the NPU says npu.",
            action="Load with map_location='cpu' and let load_state_dict move the values, or map both names.",
        )


def _function(source: Source, argument: cst.Arg) -> Proposal:
    return Proposal(
        rule=RULE,
        span=source.span(argument),
        severity=Severity.ADVICE,
        confidence="likely",
        message="map_location is a function that moves each storage to the accelerator.",
        action="Load with map_location='cpu' and let load_state_dict move the values.",
    )


def _names_cuda(source: Source, node: cst.CSTNode) -> bool:
    texts = (literal(source, found) for found in descendants(node))
    return any(text is not None and text.body.partition(":")[0] == "cuda" for text in texts)


def _moves_to_cuda(source: Source, value: cst.Lambda) -> bool:
    body = value.body
    if isinstance(body, cst.Call) and isinstance(body.func, cst.Attribute) and body.func.attr.value == "cuda":
        return True
    return _names_cuda(source, body)
