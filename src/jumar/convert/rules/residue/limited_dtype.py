"""## What it does
Reports dtypes that NPUs hold but compute with in part: float64, complex128, FP8 and wide unsigned integers, by
name, as `.double()`, as a string (`dtype='float64'`) or as the default dtype. One finding a file and dtype; it
tells how many of the operators whose dtypes the vendor checks refuse it, and names common ones among them.

## Why it matters
An operator that refuses a dtype raises in the middle of a run, or is computed on the host, slowly. NumPy's arrays
are float64, so it often comes in unseen.

## Example
```python
t = torch.arange(n, dtype=torch.float64, device=device)
```

## Use instead
```python
t = torch.arange(n, dtype=torch.float32, device=device)
```

## Fix safety
No fix: whether float32 is exact enough is the program's matter; computing this part on the CPU is not.

## References
- Parameter checks of the aclnn functions in hicann/ops-math and hicann/ops-nn (`jumar/soc/data/npu_dtypes.json`)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.model.spans import Span
from jumar.convert.rules.subject.context import Context, keyword
from jumar.convert.rules.subject.places import distinct, summary
from jumar.convert.syntax.literals import literal
from jumar.convert.syntax.receivers import Receivers
from jumar.convert.syntax.source import Source
from jumar.operators.dtypes import dtype as dtype_of
from jumar.soc import DEFAULT_SOC
from jumar.soc.profiles import get_soc
from jumar.soc.support.data import table
from jumar.soc.support.dtypes import dtype_limits

RULE = Rule(
    code="JM138",
    name="limited-dtype",
    summary="A dtype is used that NPUs compute with in part.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

_LIMITED = frozenset(
    {"float64", "complex128", "uint16", "uint32", "uint64"}
    | {"float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"}
)
_METHODS = ("double", "cdouble")
_COMMON = ("mm", "bmm", "convolution", "native_layer_norm", "_softmax", "mul", "sum", "index_select", "cumsum")
"""Operators that most programs use: a finding names those of them that refuse the dtype."""
_DEFAULT = ("torch.set_default_dtype", "torch.set_default_tensor_type")


def find(context: Context) -> Iterator[Proposal]:
    """Report each limited dtype once, and a limited default dtype where it is set."""
    source = context.source
    spans: dict[str, list[Span]] = {}
    for reference in distinct(source.references):
        parts = reference.name.split(".")
        limited = _limited(parts[-1]) if parts[0] == "torch" else None
        if limited is not None and (len(parts) == 2 or parts[-1] == "DoubleTensor"):
            if not _stays_on_host(source, reference.node):
                spans.setdefault(limited, []).append(source.span(reference.node))
        elif reference.name in _DEFAULT and reference.call is not None and _names_double(source, reference.call):
            yield _default(source, reference.call)
    for dtype, place in (*_methods(source), *_strings(source)):
        spans.setdefault(dtype, []).append(place)
    for dtype, places in spans.items():
        yield from _report(source, dtype, places)


def _limited(name: str) -> str | None:
    """Return the dtype that a name (`double`, `DoubleTensor`) means, where NPUs compute with it in part."""
    found = dtype_of("float64" if name == "DoubleTensor" else name)
    return found.name if found is not None and found.name in _LIMITED else None


def _names_double(source: Source, call: cst.Call) -> bool:
    return any(word in source.code(call) for word in ("float64", "double", "Double"))


def _stays_on_host(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether a dtype is only compared, or given to a call that names the CPU as its device."""
    parent = source.parent(node)
    while isinstance(parent, (cst.Element, cst.List, cst.Tuple, cst.Set)):
        parent = source.parent(parent)
    if isinstance(parent, (cst.Comparison, cst.ComparisonTarget)):
        return True
    call = source.parent(parent) if isinstance(parent, cst.Arg) else None
    device = keyword(call, "device") if isinstance(call, cst.Call) else None
    text = literal(source, device.value) if device is not None else None
    return text is not None and text.body == "cpu"


def _goes_to_host(source: Source, call: cst.Call, node: cst.Attribute) -> bool:
    """Tell whether `.double()` is followed by `.numpy()` or preceded by `.cpu()`."""
    after = source.parent(call)
    if isinstance(after, cst.Attribute) and after.attr.value in ("numpy", "item", "tolist"):
        return True
    before = node.value.func if isinstance(node.value, cst.Call) else None
    return isinstance(before, cst.Attribute) and before.attr.value == "cpu"


def _default(source: Source, call: cst.Call) -> Proposal:
    return Proposal(
        rule=RULE, span=source.span(call), severity=Severity.WARNING, confidence="likely",
        message="float64 becomes the default dtype, which NPUs compute with in part.",
        action="Keep float32 as the default, and compute what needs float64 on the CPU.",
    )  # fmt: skip


def _methods(source: Source) -> Iterator[tuple[str, Span]]:
    """Yield calls of `.double()`, but those of a class of this file that defines it."""
    receivers: dict[str, Receivers] = {}
    for node in source.methods:
        dtype = _limited(node.attr.value) if node.attr.value in _METHODS else None
        call = source.called(node)
        if dtype is None or call is None or call.args:
            continue
        known = receivers.setdefault(node.attr.value, Receivers(source, node.attr.value))
        if known.classify(node.value) != "own" and not _goes_to_host(source, call, node):
            yield dtype, source.span(node.attr)


def _strings(source: Source) -> Iterator[tuple[str, Span]]:
    """Yield dtypes named by a string where a torch dtype is asked for."""
    for argument in source.nodes(cst.Arg):
        if argument.keyword is None or "dtype" not in argument.keyword.value:
            continue
        text = literal(source, argument.value)
        call = source.parent(argument)
        owner = source.qualified(call.func) if isinstance(call, cst.Call) else None
        if text is None or text.num_fields or (owner or "").partition(".")[0] in ("numpy", "pandas", "builtins"):
            continue
        dtype = _limited(text.body.removeprefix("torch."))
        if dtype is not None and (owner or "torch").startswith("torch"):
            yield dtype, source.span(text.node)


def _report(source: Source, dtype: str, places: list[Span]) -> Iterator[Proposal]:
    refused, checked, common = _refusals(dtype)
    named = f" ({', '.join(common)})" if common else ""
    yield from summary(
        source, RULE, places, f"{dtype} is used", severity=Severity.ADVICE, confidence="possible",
        why=f"On {DEFAULT_SOC}, {refused} of {checked} operators with a known list of dtypes refuse it{named}.",
        action="Compute in float32, or on the CPU." if dtype == "float64" else "Compute this part on the CPU.",
        evidence={"dtype": dtype, "num_refusing": refused, "num_checked": checked},
    )  # fmt: skip


@lru_cache(maxsize=16)
def _refusals(dtype: str) -> tuple[int, int, tuple[str, ...]]:
    """Return how many checked operators refuse a dtype, how many there are, and common ones that refuse."""
    soc = get_soc(DEFAULT_SOC)
    names = table("npu_dtypes")["operators"]
    refusing = {name for name in names if any(dtype not in limit.dtypes for limit in dtype_limits(soc, name))}
    return len(refusing), len(names), tuple(name for name in _COMMON if name in refusing)
