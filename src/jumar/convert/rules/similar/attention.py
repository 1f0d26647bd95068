"""## What it does
With similar interfaces allowed (`-sim`): replaces `flash_attn_func`, its packed forms and xformers'
`memory_efficient_attention` by PyTorch's `scaled_dot_product_attention`, with the transposes between their
layouts, the mask in their alignment, and the arguments under their other names. The import goes when nothing
uses it any more. A `window_size` that is written out becomes a mask. Calls with arguments that have no equal
(`alibi_slopes`, `softcap`, `return_attn_probs`, biases that are xformers' own objects) are left and say so.

## Why it matters
The two libraries do not exist on an NPU; `scaled_dot_product_attention` runs the NPU's fused kernel.

## Example
```python
from flash_attn import flash_attn_func
out = flash_attn_func(q, k, v, dropout_p=0.1, causal=True)
```

## Use instead
```python
out = torch.nn.functional.scaled_dot_product_attention(
    q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), dropout_p=0.1,
    attn_mask=causal_lower_right(q.size(1), k.size(1)), enable_gqa=q.size(2) != k.size(2),
).transpose(1, 2).contiguous()
```

## Fix safety
Equal up to rounding where dropout is 0, forward and backward. With dropout, other random numbers are drawn. Where
q is longer than k under a causal mask, rows that see nothing are not defined alike. Where the heads are computed in
the call, those of k and v must be as many as q's.

## References
- https://pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
- https://pytorch.org/docs/stable/generated/torch.nn.attention.bias.CausalBias.html
- https://github.com/Dao-AILab/flash-attention, https://facebookresearch.github.io/xformers/
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.similar.replacing.replaced import (
    Replaced,
    finder,
    is_there,
    left,
    named,
    proposals,
    with_requirement,
)
from jumar.convert.rules.similar.replacing.spelling import (
    Arguments,
    bound_arguments,
    constant,
    followed_by,
    is_plain,
    keyworded,
    without_argument,
)
from jumar.convert.rules.subject.context import Context, last_argument
from jumar.convert.rules.subject.places import comes_optionally
from jumar.convert.syntax.source import Reference, Source

RULE = Rule(
    code="JM145",
    name="similar-attention",
    summary="An attention kernel of a CUDA library can be replaced by PyTorch's.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="safe",
)


SDPA = "torch.nn.functional.scaled_dot_product_attention"
_LOWER_RIGHT = "causal_lower_right"
_MASK_MODULE = "torch.nn.attention.bias"
_PACKAGES = ("flash_attn", "flash_attn.flash_attn_interface")
_FLASH = ("dropout_p", "softmax_scale", "causal")
_FORMS = {
    "flash_attn_func": ("q", "k", "v"),
    "flash_attn_qkvpacked_func": ("qkv",),
    "flash_attn_kvpacked_func": ("q", "kv"),
}
_DEFAULTS: dict[str, object] = {
    "window_size": (-1, -1), "softcap": 0.0, "alibi_slopes": None, "deterministic": None, "return_attn_probs": False,
}  # fmt: skip
_XFORMERS = ("query", "key", "value", "attn_bias", "p", "scale", "op", "output_dtype")
_MEMORY_EFFICIENT = ("xformers.ops.memory_efficient_attention", "xformers.ops.fmha.memory_efficient_attention")
_BOTTOM_RIGHT = ".LowerTriangularFromBottomRightMask"
_BIASES = ("LowerTriangular", "BlockDiagonal", "attn_bias", "AttentionBias", "PaddedKeys")

_CAVEAT = "Equal up to rounding without dropout; with it, other random numbers are drawn. "
_CAUSAL = "Rows of a causal mask that see nothing (q longer than k) are not defined alike. "
_HEADS = "Heads of k and v must be as many as q's (else pass enable_gqa=True). "
_FIRST_WITH_GROUPS = 5
"""The minor release of PyTorch 2 from which on `scaled_dot_product_attention` takes `enable_gqa`."""


class _UnequalError(Exception):
    """A call has no equal; the text says why."""


@finder(RULE)
def replaceable(context: Context) -> Iterator[Replaced]:
    """Yield the attention calls of the file, each replaced or left."""
    source = context.source
    for reference in source.references:
        if reference.call is None or not reference.certain or comes_optionally(source, reference):
            continue
        package, _, name = reference.name.rpartition(".")
        if package in _PACKAGES and name in _FORMS:
            form = _flash
        elif reference.name in _MEMORY_EFFICIENT:
            form = _memory_efficient
        else:
            continue
        try:
            yield form(context, reference, reference.call)
        except _UnequalError as reason:
            yield left(context, RULE, reference, str(reason))


def _flash(context: Context, reference: Reference, call: cst.Call) -> Replaced:
    source = context.source
    tensors = _FORMS[reference.name.rpartition(".")[2]]
    parameters = (*tensors, *_FLASH, *_DEFAULTS)
    given = bound_arguments(call, parameters, positional=len(tensors) + len(_FLASH))
    if given is None or any(name not in given for name in tensors):
        raise _UnequalError("its arguments cannot be told apart here")
    edits = [edit for name in tensors for edit in _layout(source, name, given[name])]
    edits += _without_defaults(source, call, given)
    for old, new in (("dropout_p", "dropout_p"), ("softmax_scale", "scale")):
        edits += keyworded(source, given[old], new) if old in given else []
    window = _window(source, call, tensors, given)
    edits += _causal(context, tensors, given) if window is None else window
    groups = _groups(context, call, tensors, given)
    edits += groups
    edits += followed_by(source, call, ".transpose(1, 2).contiguous()")
    packed = tensors == ("qkv",)
    caveat = _CAVEAT + _CAUSAL * ("causal" in given) + ("" if groups or packed else _HEADS)
    return _with_mask(named(context, RULE, reference, SDPA, edits, caveat), edits)


def _groups(context: Context, call: cst.Call, tensors: tuple[str, ...], given: Arguments) -> list[Replacement]:
    """Return the argument that lets several heads of q share one of k, where both tensors are plain names."""
    source = context.source
    is_known = all(is_plain(given[name].value) for name in tensors[:2])
    if tensors != ("q", "k", "v") or not is_known or int(context.options.release.split(".")[1]) < _FIRST_WITH_GROUPS:
        return []
    q, k = (source.code(given[name].value) for name in tensors[:2])
    return [last_argument(source, call, f"enable_gqa={q}.size(2) != {k}.size(2)")]


def _window(source: Source, call: cst.Call, tensors: tuple[str, ...], given: Arguments) -> list[Replacement] | None:
    """Return the edits that make a mask of a sliding window, None where there is no window.

    Raises _UnequalError for one that is computed.
    """
    argument = given.get("window_size")
    if argument is None:
        return None
    bounds = constant(argument.value)
    if not isinstance(bounds, tuple) or len(bounds) != 2 or not all(type(bound) is int for bound in bounds):
        raise _UnequalError("`window_size` is computed")
    left_bound, right_bound = bounds
    causal = constant(given["causal"].value) if "causal" in given else False
    if (left_bound, right_bound) == (-1, -1):
        return None
    if (
        causal not in (True, False)
        or tensors == ("qkv",)
        or not all(is_plain(given[name].value) for name in tensors[:2])
    ):
        raise _UnequalError("`window_size` needs the lengths of q and k, and whether the mask is causal")
    q, k = (f"{source.code(given[name].value)}.size(1)" for name in tensors[:2])
    if causal:
        right_bound = 0 if right_bound < 0 else min(right_bound, 0)
    mask = f"torch.ones({q}, {k}, dtype=torch.bool, device={source.code(given[tensors[0]].value)}.device)"
    # flash-attention aligns a window to the bottom right corner.
    further, back = (f" {sign} {bound}" if bound else "" for sign, bound in (("+", right_bound), ("-", left_bound)))
    mask += f".tril({k} - {q}{further})" if right_bound >= 0 else ""
    mask += f".triu({k} - {q}{back})" if left_bound >= 0 else ""
    edits = [without_argument(source, call, given["causal"])] if "causal" in given else []
    start, end = source.span(argument)[0], source.outer_span(argument.value)[1]
    return [*edits, Replacement(start, end, f"attn_mask={mask}")]


def _layout(source: Source, name: str, argument: cst.Arg) -> list[Replacement]:
    """Return the edits that turn (batch, sequence, heads, dim), perhaps packed, into SDPA's layout."""
    packed = name in ("qkv", "kv")
    edits = followed_by(source, argument.value, ".transpose(1, 3).unbind(2)" if packed else ".transpose(1, 2)")
    start = source.span(argument)[0]
    if argument.keyword is not None:
        if packed:
            raise _UnequalError("a packed tensor is passed by keyword")
        edits.append(Replacement(*source.span(argument.keyword), {"q": "query", "k": "key", "v": "value"}[name]))
    elif packed:
        edits.append(Replacement(start, start, "*"))
    return edits


def _without_defaults(source: Source, call: cst.Call, given: Arguments) -> list[Replacement]:
    """Return the deletions of arguments that say nothing. Raises _UnequalError for those that say something."""
    edits = []
    for name, default in _DEFAULTS.items():
        if name in given:
            if name == "window_size" and constant(given[name].value) != default:
                continue
            value = constant(given[name].value)
            if value != default and not (name == "deterministic" and isinstance(value, bool)):
                raise _UnequalError(f"`{name}` has no equal")
            edits.append(without_argument(source, call, given[name]))
    return edits


def _causal(context: Context, tensors: tuple[str, ...], given: Arguments) -> list[Replacement]:
    source, argument = context.source, given.get("causal")
    if argument is None:
        return []
    value = constant(argument.value)
    if value is False or tensors == ("qkv",):
        return keyworded(source, argument, "is_causal")
    _check_mask(context)
    if not _is_free(source, argument.value):
        raise _UnequalError(f"`{_LOWER_RIGHT}` is another name here")
    lengths = [given[name].value for name in (tensors[0], tensors[1])]
    if not all(is_plain(tensor) for tensor in lengths):
        raise _UnequalError("a causal mask needs the lengths of q and k, which are computed in the call")
    mask = f"{_LOWER_RIGHT}({source.code(lengths[0])}.size(1), {source.code(lengths[1])}.size(1))"
    start, end = source.outer_span(argument.value)
    if argument.keyword is not None:
        edits = [Replacement(*source.span(argument.keyword), "attn_mask")]
        head = ""
    else:
        edits, head = [], "attn_mask="
    if value is True:
        return [*edits, Replacement(start, end, head + mask)]
    loose = isinstance(argument.value, (cst.IfExp, cst.Lambda, cst.NamedExpr)) and not argument.value.lpar
    before, after = ("(", ")") if loose else ("", "")
    return [
        *edits,
        Replacement(start, start, f"{head}{mask} if {before}"),
        Replacement(end, end, f"{after} else None"),
    ]


def _check_mask(context: Context) -> None:
    """Raise _UnequalError where the chosen release has no mask that is aligned to the bottom right corner."""
    name = f"{_MASK_MODULE}.{_LOWER_RIGHT}"
    if not is_there(context, name):
        raise _UnequalError(f"torch {context.options.release} has no {name}")


def _is_free(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether the name of the mask's function means nothing else where `node` stands."""
    return source.scope(node).candidates(_LOWER_RIGHT) in ((None,), (f"{_MASK_MODULE}.{_LOWER_RIGHT}",))


def _with_mask(found: Replaced, edits: list[Replacement]) -> Replaced:
    if any("torch.ones(" in edit.text for edit in edits):
        return Replaced(reference=found.reference, proposal=with_requirement(found.proposal, "import torch"))
    if not any(_LOWER_RIGHT in edit.text for edit in edits):
        return found
    proposal = with_requirement(found.proposal, f"from {_MASK_MODULE} import {_LOWER_RIGHT}")
    return Replaced(reference=found.reference, proposal=proposal)


def _memory_efficient(context: Context, reference: Reference, call: cst.Call) -> Replaced:
    """Replace xformers' attention; `transpose(1, -2)` leaves tensors without a dimension of heads as they are."""
    source = context.source
    given = bound_arguments(call, _XFORMERS, positional=6)
    if given is None or any(name not in given for name in _XFORMERS[:3]):
        raise _UnequalError("its arguments cannot be told apart here")
    edits = [edit for name in _XFORMERS[:3] for edit in followed_by(source, given[name].value, ".transpose(1, -2)")]
    for name in ("op", "output_dtype"):
        if name in given:
            value = given[name].value
            if not is_plain(value) or (name == "output_dtype" and constant(value) is not None):
                raise _UnequalError(f"`{name}` has no equal")
            edits.append(without_argument(source, call, given[name]))
    edits += _bias(context, given)
    for old, new in (("p", "dropout_p"), ("scale", "scale")):
        edits += keyworded(source, given[old], new) if old in given else []
    edits += followed_by(source, call, ".transpose(1, -2).contiguous()")
    is_bottom_right = any(_LOWER_RIGHT in edit.text for edit in edits)
    caveat = _CAVEAT + _CAUSAL * is_bottom_right + _HEADS
    return _with_mask(named(context, RULE, reference, SDPA, edits, caveat), edits)


def _bias(context: Context, given: Arguments) -> list[Replacement]:
    source, argument = context.source, given.get("attn_bias")
    if argument is None:
        return []
    value = argument.value
    lengths = [given[name].value for name in ("query", "key")]
    if isinstance(value, cst.Call) and (source.qualified(value.func) or "").endswith(_BOTTOM_RIGHT):
        if value.args or not all(is_plain(tensor) for tensor in lengths) or not _is_free(source, value):
            raise _UnequalError("its mask is an object of xformers")
        _check_mask(context)
        mask = f"{_LOWER_RIGHT}({', '.join(f'{source.code(tensor)}.size(1)' for tensor in lengths)})"
        return [*keyworded(source, argument, "attn_mask"), Replacement(*source.outer_span(value), mask)]
    if isinstance(value, cst.Call) and (source.qualified(value.func) or "").endswith(".LowerTriangularMask"):
        if value.args:
            raise _UnequalError("its mask is an object of xformers")
        return [*keyworded(source, argument, "is_causal"), Replacement(*source.outer_span(value), "True")]
    others = any(
        reference.name.startswith("xformers.") and any(word in reference.name for word in _BIASES)
        for reference in source.references
    )
    if others and constant(value) is not None:
        raise _UnequalError("its mask may be an object of xformers")
    return keyworded(source, argument, "attn_mask")


def find(context: Context) -> Iterator[Proposal]:
    """Replace what has an equal, where similar interfaces are allowed."""
    return proposals(context, RULE)
