"""ONNX operators over whole dimensions: sums, norms, Softmax, matrix products."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

from jumar.tune.graph.from_onnx.call import HANDLERS, Call, computes

Reduction = Callable[[torch.Tensor, "list[int]", bool], torch.Tensor]


def _prod(source: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    for axis in sorted(axes, reverse=True):
        source = torch.prod(source, axis, keepdim=keep, dtype=source.dtype)
    return source


_REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": lambda x, axes, keep: torch.sum(x, axes, keepdim=keep, dtype=x.dtype),
    "ReduceMean": lambda x, axes, keep: torch.mean(x, axes, keepdim=keep),
    "ReduceMax": lambda x, axes, keep: torch.amax(x, axes, keepdim=keep),
    "ReduceMin": lambda x, axes, keep: torch.amin(x, axes, keepdim=keep),
    "ReduceProd": _prod,
    "ReduceL1": lambda x, axes, keep: torch.sum(torch.abs(x), axes, keepdim=keep, dtype=x.dtype),
    "ReduceL2": lambda x, axes, keep: torch.sqrt(torch.sum(x * x, axes, keepdim=keep)),
    "ReduceSumSquare": lambda x, axes, keep: torch.sum(x * x, axes, keepdim=keep, dtype=x.dtype),
    "ReduceLogSum": lambda x, axes, keep: torch.log(torch.sum(x, axes, keepdim=keep)),
    "ReduceLogSumExp": lambda x, axes, keep: torch.logsumexp(x, axes, keepdim=keep),
}


def _reduce(reduction: Reduction) -> Callable[[Call], torch.Tensor]:
    def compute(call: Call) -> torch.Tensor:
        source, axes = call.tensor(0), call.ints_of("axes", 1)
        if not axes:
            if call.attribute("noop_with_empty_axes", 0):
                return source
            axes = list(range(source.dim()))
        return reduction(source, [axis % max(source.dim(), 1) for axis in axes], bool(call.attribute("keepdims", 1)))

    return compute


HANDLERS.update({name: _reduce(reduction) for name, reduction in _REDUCTIONS.items()})


@computes("ArgMax", "ArgMin")
def _arg(call: Call) -> torch.Tensor:
    source, axis = call.tensor(0), call.attribute("axis", 0)
    keep = bool(call.attribute("keepdims", 1))
    function: Callable[..., torch.Tensor] = torch.argmax if call.operator == "ArgMax" else torch.argmin
    if not call.attribute("select_last_index", 0):
        return function(source, axis, keepdim=keep)
    return torch.sub(source.shape[axis] - 1, function(source.flip(axis), axis, keepdim=keep))


@computes("TopK")
def _top_k(call: Call) -> tuple[torch.Tensor, ...]:
    count = call.ints(1)[0] if call.has(1) else call.attribute("k")
    largest, ordered = bool(call.attribute("largest", 1)), bool(call.attribute("sorted", 1))
    values, places = torch.topk(call.tensor(0), count, call.attribute("axis", -1), largest, ordered)
    return values, places


@computes("CumSum")
def _cum_sum(call: Call) -> torch.Tensor:
    source, axis = call.tensor(0), int(call.number(1))
    backwards = bool(call.attribute("reverse", 0))
    source = source.flip(axis) if backwards else source
    if call.attribute("exclusive", 0) and source.shape[axis]:
        # Not by taking the elements off the sums: what is small would be lost, and infinity would be no number.
        nothing = torch.zeros_like(source.narrow(axis, 0, 1))
        source = torch.cat([nothing, source.narrow(axis, 0, source.shape[axis] - 1)], axis)
    found = torch.cumsum(source, axis, dtype=source.dtype)
    return found.flip(axis) if backwards else found


@computes("Softmax", "LogSoftmax")
def _softmax(call: Call) -> torch.Tensor:
    source = call.tensor(0)
    function: Callable[[torch.Tensor, int], torch.Tensor] = (
        torch.softmax if call.operator == "Softmax" else torch.log_softmax
    )
    if call.opset >= 13:
        return function(source, call.attribute("axis", -1))
    axis = call.attribute("axis", 1) % source.dim()
    if axis == source.dim() - 1:
        return function(source, axis)
    # Older operator sets take all dimensions from `axis` on as one.
    return function(source.flatten(axis), axis).reshape(source.shape)


@computes("MatMul")
def _matmul(call: Call) -> torch.Tensor:
    left, right = call.tensor(0), call.tensor(1)
    return torch.matmul(left, right)


@computes("Gemm")
def _gemm(call: Call) -> torch.Tensor:
    left, right, added = call.tensor(0), call.tensor(1), call.optional(2)
    left = left.t() if call.attribute("transA", 0) else left
    alpha, beta = call.attribute("alpha", 1.0), call.attribute("beta", 1.0)
    if alpha == 1.0 and (added is None or (beta == 1.0 and added.dim() == 1)):
        return functional.linear(left, right if call.attribute("transB", 0) else right.t(), added)
    product = torch.matmul(left, right.t() if call.attribute("transB", 0) else right) * alpha
    return product if added is None else torch.add(product, added, alpha=beta)


@computes("Einsum")
def _einsum(call: Call) -> torch.Tensor:
    factors = [call.tensor(place) for place in range(len(call.inputs))]
    product: torch.Tensor = torch.einsum(call.attribute("equation"), *factors)
    return product
