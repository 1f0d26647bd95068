"""## What it does
Reports where the shape of a tensor depends on its values or on the batch, in code that trains: `nonzero`,
`unique`, `masked_select`, a boolean mask as an index, one-argument `torch.where`, sequences padded to the
longest of their batch (`padding=True`, `pad_sequence`), and sizes drawn at random for `interpolate`.

## Why it matters
The guide trains with fixed shapes: each new shape may compile its operators again, and operators whose
result's shape is only known afterwards make the host wait for the device.

## Example
```python
loss = losses.cuda()[mask > 0].mean()
```

## Use instead
```python
loss = (losses.npu() * (mask > 0)).sum() / (mask > 0).sum()
```

## Fix safety
No fix: what stands for it depends on what the values are used for.

## References
- PyTorch network model porting and training guide: compile bottlenecks; FAQ "match op inputs failed"
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context, keyword
from jumar.convert.rules.subject.names import words_of
from jumar.convert.syntax.devices import callee_name
from jumar.convert.syntax.scopes import last_name
from jumar.convert.syntax.source import Source
from jumar.convert.syntax.tree import descendants

RULE = Rule(
    code="JM162",
    name="shape-varies",
    summary="A tensor's shape depends on values or on the batch.",
    severity=Severity.ADVICE,
    doc=__doc__,
    opt_in=True,
)


_FUNCTIONS = {
    "torch.nonzero": "Use a mask and torch.where with three arguments.",
    "torch.unique": "Count or sort with a fixed number of values.",
    "torch.unique_consecutive": "Count or sort with a fixed number of values.",
    "torch.masked_select": "Multiply by the mask, and divide by its sum.",
    "torch.nn.utils.rnn.pad_sequence": "Pad every batch to the same length.",
}
_METHODS = {"nonzero": "torch.nonzero", "masked_select": "torch.masked_select"}
_PAD = "Pad every batch to the same length (padding='max_length')."


def find(context: Context) -> Iterator[Proposal]:
    """Report expressions whose shape varies."""
    source = context.source
    if not _imports_torch(source):
        return
    for call in source.nodes(cst.Call):
        found = _of_call(source, call)
        if found is not None:
            yield _finding(context, call.func, *found)
    for node in source.nodes(cst.Subscript):
        if node not in source.tree.stored and _is_mask(node):
            what = "A boolean mask is an index: the result has as many items as the mask is true."
            yield _finding(context, node, what, "Multiply by the mask, or use torch.where with three arguments.")


def _imports_torch(source: Source) -> bool:
    return any(
        (binding.qualified or "").partition(".")[0] == "torch"
        for scope in source.tree.own_scopes.values()
        for bindings in scope.bindings.values()
        for binding in bindings
    )


def _of_call(source: Source, call: cst.Call) -> tuple[str, str] | None:
    name = source.qualified(call.func) or ""
    if name == "torch.where" and len(call.args) == 1:
        return "torch.where with one argument gives as many items as are true.", _FUNCTIONS["torch.nonzero"]
    if name in _FUNCTIONS:
        return f"The shape of `{name}`'s result depends on values.", _FUNCTIONS[name]
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in _METHODS and not name:
        known = _METHODS[call.func.attr.value]
        return f"The shape of `.{call.func.attr.value}`'s result depends on values.", _FUNCTIONS[known]
    padding = keyword(call, "padding")
    if padding is None or not words_of(callee_name(call)) & {"tokenizer", "pad", "encode", "plus"}:
        return None
    longest = source.code(padding.value).strip("'\"") in ("True", "longest")
    return ("A batch is padded to its longest sequence.", _PAD) if longest else None


def _is_mask(node: cst.Subscript) -> bool:
    """Tell whether the only index is a comparison, or a combination of such, or is called a mask."""
    if len(node.slice) != 1 or not isinstance(node.slice[0].slice, cst.Index):
        return False
    index = node.slice[0].slice.value
    if isinstance(index, cst.Comparison):
        return not any(isinstance(part.operator, (cst.In, cst.NotIn, cst.Is, cst.IsNot)) for part in index.comparisons)
    if isinstance(index, (cst.UnaryOperation, cst.BinaryOperation)):
        return any(isinstance(part, cst.Comparison) for part in descendants(index))
    return bool(words_of(last_name(index)) & {"mask"})


def _finding(context: Context, node: cst.CSTNode, message: str, action: str) -> Proposal:
    return Proposal(rule=RULE, span=context.source.span(node), message=message, action=action, confidence="likely")
