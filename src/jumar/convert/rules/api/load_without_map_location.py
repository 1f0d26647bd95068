"""## What it does
Finds calls that open a checkpoint and leave its device open: `torch.load` and `torch.jit.load` without
`map_location` (or with None), and, less gravely, downloads of published weights (`torch.hub.
load_state_dict_from_url`, `model_zoo.load_url`) and Lightning's `load_from_checkpoint`.

## Why it matters
A checkpoint saved on CUDA remembers its device. Loaded without `map_location` on a machine without
CUDA it raises "Attempting to deserialize object on a CUDA device".

## Example
```python
state = torch.load(path)
```

## Use instead
```python
state = torch.load(path, map_location='cpu')
```

## Fix safety
Unsafe: tensors that stayed on the accelerator now arrive on the CPU. `load_state_dict` copies them
to the right place; code that uses them directly must move them.

## References
- https://pytorch.org/docs/stable/generated/torch.load.html
- https://pytorch.org/docs/stable/hub.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.subject.context import Context, has_star, keyword, last_argument, uses_of
from jumar.convert.syntax.source import Reference

RULE = Rule(
    code="JM112",
    name="load-without-map-location",
    summary="A checkpoint is opened without map_location.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="unsafe",
)


_LOADS = ("torch.load", "torch.jit.load", "torch.serialization.load")
_DOWNLOADS = (
    "torch.hub.load_state_dict_from_url",
    "torch.utils.model_zoo.load_url",
    "torchvision.models.utils.load_state_dict_from_url",
)
_POSITION = {"torch.load": 1, "torch.jit.load": 1, "torch.serialization.load": 1}
_POSITION |= dict.fromkeys(_DOWNLOADS, 2)
"""How many positional arguments stand before map_location."""


def find(context: Context) -> Iterator[Proposal]:
    """Propose `map_location='cpu'` for every call that leaves the device open."""
    for reference in uses_of(context.source, *_LOADS, *_DOWNLOADS):
        call = reference.call
        if call is None or has_star(call, "**") or has_star(call, "*"):
            continue
        given = keyword(call, "map_location")
        if given is not None and context.source.code(given.value) != "None":
            continue
        if sum(argument.keyword is None for argument in call.args) > _POSITION[reference.name]:
            continue
        yield _proposal(context, reference, call, given)
    yield from _lightning(context)


def _proposal(context: Context, reference: Reference, call: cst.Call, given: cst.Arg | None) -> Proposal:
    source = context.source
    device = f"{context.quote}cpu{context.quote}"
    if given is None:
        edit = last_argument(source, call, f"map_location={device}")
    else:
        edit = Replacement(*source.outer_span(given.value), device)
    download = reference.name in _DOWNLOADS
    return Proposal(
        rule=RULE,
        span=source.span(reference.node),
        message=f"`{reference.name}` without map_location cannot open a checkpoint saved on CUDA.",
        replacements=(edit,),
        safety="unsafe",
        severity=Severity.ADVICE if download else None,
        confidence="possible" if download else "certain",
        action="Pass map_location='cpu' and let load_state_dict move the values.",
    )


def _lightning(context: Context) -> Iterator[Proposal]:
    """Report Lightning's class method; its receiver is not known, so nothing is changed."""
    source = context.source
    for node in source.nodes(cst.Attribute):
        call = source.called(node)
        if node.attr.value != "load_from_checkpoint" or call is None or keyword(call, "map_location"):
            continue
        if len([arg for arg in call.args if arg.keyword is None]) > 1 or has_star(call, "**"):
            continue
        yield Proposal(
            rule=RULE, span=source.span(node.attr), severity=Severity.ADVICE, confidence="likely",
            message="`load_from_checkpoint` without map_location wants the devices of the checkpoint.",
            action="Pass map_location='cpu'.",
        )  # fmt: skip
