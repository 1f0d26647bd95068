"""## What it does
Writes an assignment of a number through a comparison, `x[x < 0] = 0`, as `x.masked_fill_(x < 0, 0)`. It does so
where the file shows that `x` is a tensor (made by torch, or an argument of a module's `forward`); others, which
may be arrays of NumPy, are left.

## Why it matters
The assignment looks for the indices first (`nonzero`, whose result has another shape each time) and writes to
them then; the guide's FAQ names it (PTIndexPut, "match op inputs failed"). The fill is one operator of fixed shape.

## Example
```python
def clamp(y):
    x = torch.relu(y)
    x[x > 6] = 6
    return x
```

## Use instead
```python
def clamp(y):
    x = torch.relu(y)
    x.masked_fill_(x > 6, 6)
    return x
```

## Fix safety
Unsafe, with proof: forward and backward are equal to the bit for masks of the tensor's own shape, or of its
first dimensions (tests run both forms on the emulated NPU); a mask of fewer dimensions is aligned from the
right afterwards, where it was from the left, so only comparisons of the tensor itself are rewritten.

## References
- PyTorch network model porting and training guide: FAQ, "match op inputs failed" (PTIndexPut)
- torch_npu 2.13 (`torch_npu.contrib.npu_fast_condition_index_put`)
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.names import peeled, root_name
from jumar.convert.syntax.scopes import last_name
from jumar.convert.syntax.source import Source
from jumar.convert.syntax.tree import descendants

RULE = Rule(
    code="JM172",
    name="masked-assignment",
    summary="A number is assigned through a mask.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="unsafe",
    opt_in=True,
)


_COMPARISONS = (
    cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual, cst.Equal, cst.NotEqual,
)  # fmt: skip
_PACKAGES = ("torch", "torch.nn.functional", "torch.special", "torch.linalg", "torch.fft")
_NO_TENSORS = frozenset(
    {"torch.load", "torch.device", "torch.is_tensor", "torch.numel", "torch.compile", "torch.split", "torch.chunk"}
)
_TO_HOST = ("numpy", "item", "tolist")


def find(context: Context) -> Iterator[Proposal]:
    """Propose masked_fill_ for numbers that are assigned through a comparison."""
    source = context.source
    for statement in source.nodes(cst.Assign):
        target = statement.targets[0].target
        if len(statement.targets) != 1 or not isinstance(target, cst.Subscript) or not _is_number(statement.value):
            continue
        mask = _mask(target)
        if mask is not None and isinstance(target.value, cst.Name) and _is_tensor(source, target.value):
            yield _proposal(source, statement, target, mask)


def _is_number(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        node = node.expression
    return isinstance(node, (cst.Integer, cst.Float))


def _mask(target: cst.Subscript) -> cst.Comparison | None:
    """Return the comparison of the tensor with something that is its only index."""
    index = target.slice[0].slice if len(target.slice) == 1 else None
    value = index.value if isinstance(index, cst.Index) else None
    if not isinstance(value, cst.Comparison) or len(value.comparisons) != 1:
        return None
    operator = value.comparisons[0].operator
    if not isinstance(operator, _COMPARISONS):
        return None
    same = isinstance(value.left, cst.Name) and last_name(value.left) == last_name(target.value)
    other = value.comparisons[0].comparator
    return value if same and isinstance(other, (cst.Integer, cst.Float, cst.UnaryOperation)) else None


def _is_tensor(source: Source, name: cst.Name, depth: int = 0) -> bool:
    """Tell whether everything that is bound to a variable is a tensor, as far as the file shows."""
    bindings = source.scope(name).bindings_of(name.value)
    kinds = []
    for binding in bindings:
        if isinstance(binding.node, cst.Param):
            kinds.append(_is_input(source, binding.node))
        elif binding.value is not None:
            kinds.append(_makes_tensor(source, binding.value, depth))
        else:
            kinds.append(False)
    return bool(kinds) and all(kinds)


def _is_input(source: Source, parameter: cst.Param) -> bool:
    """Tell whether a parameter is a tensor: annotated so, or an argument of a module's forward."""
    if parameter.annotation is not None:
        return source.qualified(parameter.annotation.annotation) == "torch.Tensor"
    function = source.enclosing(parameter, cst.FunctionDef)
    around = source.enclosing(function, cst.ClassDef) if function is not None else None
    if function is None or around is None or function.name.value != "forward" or parameter.default is not None:
        return False
    return any((source.qualified(base.value) or "").startswith("torch.nn.") for base in around.bases)


def _makes_tensor(source: Source, value: cst.BaseExpression, depth: int) -> bool:
    """Tell whether an expression is a tensor: torch made it, or it is computed from one."""
    made = peeled(value)
    if isinstance(made, cst.Name):
        return depth < 4 and _is_tensor(source, made, depth + 1)
    if isinstance(made, cst.BinaryOperation):
        return _makes_tensor(source, made.left, depth) or _makes_tensor(source, made.right, depth)
    if not isinstance(made, cst.Call):
        return False
    qualified = source.qualified(made.func) or ""
    if qualified:
        return qualified.startswith("torch.") and qualified.rpartition(".")[2][:1].islower() and _is_function(qualified)
    root = root_name(made.func)
    leaves = any(isinstance(part, cst.Attribute) and part.attr.value in _TO_HOST for part in descendants(made))
    return root is not None and not leaves and depth < 4 and _is_tensor(source, root, depth + 1)


def _is_function(qualified: str) -> bool:
    """Tell whether a name of torch is a function that gives a tensor."""
    return qualified.rpartition(".")[0] in _PACKAGES and qualified not in _NO_TENSORS


def _proposal(source: Source, statement: cst.Assign, target: cst.Subscript, mask: cst.Comparison) -> Proposal:
    start, end = source.span(target)
    low, high = source.outer_span(mask)
    value = source.outer_span(statement.value)
    text = source.text.text
    bracket = text.index("[", source.span(target.value)[1])
    between = (text[bracket + 1 : low], text[high : end - 1], text[end : value[0]])
    clean = [part.strip() for part in between] == ["", "", "="]
    return Proposal(
        rule=RULE,
        span=(start, end),
        message=f"A number is assigned through a mask: `{source.code(target)}`.",
        replacements=(
            Replacement(bracket, bracket + 1, ".masked_fill_("),
            Replacement(high, value[0], ", "),
            Replacement(value[1], value[1], ")"),
        )
        if clean
        else (),
        safety="unsafe",
        confidence="likely",
    )
