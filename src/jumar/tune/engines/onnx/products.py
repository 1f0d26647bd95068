"""Matrix products, attention, recurrent layers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from jumar.tune.engines.onnx.draft import Draft, Value, operator, refuse


@operator("linear")
def _linear(draft: Draft, input: Value, weight: Value, bias: Value | None = None) -> str:
    if weight.rank == 1:
        return draft.add("MatMul", input.name, weight.name)
    if input.rank == 2:
        return draft.add("Gemm", input.name, weight.name, *([] if bias is None else [bias.name]), transB=1)
    made = draft.add("MatMul", input.name, draft.permute(weight.name, [1, 0]))
    return made if bias is None else draft.add("Add", made, bias.name)


@operator("mm", "bmm", "matmul", "mv", "dot")
def _matmul(draft: Draft, self: Value, **rest: Value) -> str:
    (other,) = rest.values()
    if not self.is_float:
        raise refuse("a product of integers")
    return draft.add("MatMul", self.name, other.name)


@operator("addmm", "baddbmm", "addmv")
def _addmm(draft: Draft, self: Value, beta: float = 1, alpha: float = 1, **rest: Value) -> str:
    left, right = rest.values()
    if not self.is_float:
        raise refuse("a product of integers")
    if left.rank == 2 and right.rank == 2 and self.rank <= 2 and beta == 1:
        return draft.add("Gemm", left.name, right.name, self.name, alpha=float(alpha))
    made = draft.add("MatMul", left.name, right.name)
    made = made if alpha == 1 else draft.add("Mul", made, draft.number(alpha, self.dtype))
    if beta == 0:
        return made
    summand = self.name if beta == 1 else draft.add("Mul", self.name, draft.number(beta, self.dtype))
    return draft.add("Add", made, summand)


@operator("scaled_dot_product_attention")
def _attention(
    draft: Draft, query: Value, key: Value, value: Value, attn_mask: Value | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> str:  # fmt: skip
    """softmax(query · keyᵀ · scale + mask) · value, as PyTorch's reference implementation has it."""
    if dropout_p or (enable_gqa and query.shape[-3] != key.shape[-3]):
        raise refuse("attention with dropout or with fewer heads for keys")
    dtype = query.dtype
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    turned = draft.permute(key.name, [*range(key.rank - 2), key.rank - 1, key.rank - 2])
    scaled = draft.add("Mul", query.name, draft.number(factor, dtype))
    scores = draft.add("MatMul", scaled, turned)
    seeing: str | None = None
    if is_causal:
        seen = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
        scores = draft.add("Add", scores, draft.constant(_added(seen, dtype)))
    elif attn_mask is not None and attn_mask.dtype is torch.bool:
        scores, seeing = _masked(draft, scores, attn_mask, dtype)
    elif attn_mask is not None:
        scores, seeing = _biased(draft, scores, attn_mask, dtype)
    made = draft.add("MatMul", draft.add("Softmax", scores, axis=-1), value.name)
    return made if seeing is None else draft.add("Mul", made, draft.convert(seeing, dtype))


def _added(seen: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, -math.inf)


def _masked(draft: Draft, scores: str, mask: Value, dtype: torch.dtype) -> tuple[str, str | None]:
    """Return masked scores, and which rows see anything, as 1 and 0; None where all do.

    PyTorch gives zeros where a row sees nothing, softmax alone NaN. Such a row is given all to see here, and is
    multiplied by 0 behind the product with the values: engines find attention as they know it, and fewer elements.
    """
    if mask.known is not None and bool(mask.known.any(-1).all()):
        return draft.add("Add", scores, draft.constant(_added(mask.known, dtype))), None
    seeing, blind = _seeing(draft, mask.name)
    return draft.add("Where", draft.add("Or", mask.name, blind), scores, draft.number(-math.inf, dtype)), seeing


def _biased(draft: Draft, scores: str, bias: Value, dtype: torch.dtype) -> tuple[str, str | None]:
    """As `_masked`, with what is added to the scores: minus infinity is what a row does not see."""
    if bias.known is not None and not bool(bias.known.isneginf().all(-1).any()):
        return draft.add("Add", scores, draft.cast(bias, dtype)), None
    # Not by the maximum of the numbers: OpenVINO's of minus infinities is finite.
    unseen = draft.add("Equal", bias.name, draft.number(-math.inf, bias.dtype))
    seeing, blind = _seeing(draft, draft.add("Not", unseen))
    added = draft.add("Where", blind, draft.number(0.0, bias.dtype), bias.name)
    added = added if bias.dtype == dtype else draft.convert(added, dtype)
    return draft.add("Add", scores, added), seeing


def _seeing(draft: Draft, seen: str) -> tuple[str, str]:
    """Return whether a row has any True, as 1 and 0, and whether it has none."""
    most = draft.add("ReduceMax", draft.convert(seen, torch.int32), draft.integers([-1]), keepdims=1)
    return most, draft.add("Equal", most, draft.number(0, torch.int32))


@operator("lstm.input")
def _lstm(
    draft: Draft, input: Value, hx: Sequence[Value], params: Sequence[Value], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> list[str]:  # fmt: skip
    if (dropout and train) or len(params) != num_layers * (1 + bidirectional) * (4 if has_biases else 2):
        raise refuse("an LSTM with dropout or projections")
    made, states = _recurrent(
        draft, "LSTM", [0, 3, 1, 2], input, list(hx), params, has_biases, num_layers, bidirectional, batch_first
    )
    return [made, *states]


@operator("gru.input")
def _gru(
    draft: Draft, input: Value, hx: Value, params: Sequence[Value], has_biases: bool, num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> list[str]:  # fmt: skip
    if dropout and train:
        raise refuse("a GRU with dropout")
    made, states = _recurrent(
        draft, "GRU", [1, 0, 2], input, [hx], params, has_biases, num_layers, bidirectional, batch_first
    )
    return [made, *states]


def _recurrent(
    draft: Draft, kind: str, gates: Sequence[int], x: Value, states: Sequence[Value], params: Sequence[Value],
    has_biases: bool, num_layers: int, bidirectional: bool, batch_first: bool,
) -> tuple[str, list[str]]:  # fmt: skip
    """Write one ONNX node a layer. `gates`: PyTorch's place of each of ONNX's gates.

    ONNX's: input, output, forget, cell for LSTM and update, reset, hidden for GRU; PyTorch's: input, forget, cell,
    output and reset, update, new.
    """
    if x.rank != 3 or any(value.known is None for value in params):
        raise refuse("a recurrent layer without a batch, or with weights that change")
    num_directions, hidden = 1 + bidirectional, states[0].shape[-1]
    per = 4 if has_biases else 2
    made = draft.permute(x.name, [1, 0, 2]) if batch_first else x.name
    batch, length = (x.shape[0], x.shape[1]) if batch_first else (x.shape[1], x.shape[0])
    last: list[list[str]] = [[] for _ in states]
    for layer in range(num_layers):
        first = layer * num_directions
        known = [value.known for value in params[first * per : (first + num_directions) * per]]
        weights = [
            draft.constant(
                torch.stack([_gates(known[place + per * way], gates, hidden) for way in range(num_directions)])
            )
            for place in (0, 1)
        ]
        if has_biases:
            biases = [
                torch.cat([_gates(known[place + per * way], gates, hidden) for place in (2, 3)])
                for way in range(num_directions)
            ]
        else:
            biases = [torch.zeros(2 * len(gates) * hidden, dtype=x.dtype)] * num_directions
        started = [draft.slice(state.name, 0, first, first + num_directions) for state in states]
        made, *ends = draft.several(
            kind, made, *weights, draft.constant(torch.stack(biases)), "", *started, outputs=1 + len(states),
            hidden_size=hidden, direction="bidirectional" if bidirectional else "forward",
            linear_before_reset=1 if kind == "GRU" else None,
        )  # fmt: skip
        made = draft.reshape(draft.permute(made, [0, 2, 1, 3]), [length, batch, num_directions * hidden])
        for ended, end in zip(last, ends, strict=True):
            ended.append(end)
    made = draft.permute(made, [1, 0, 2]) if batch_first else made
    return made, [draft.add("Concat", *ends, axis=0) for ends in last]


def _gates(weight: torch.Tensor | None, order: Sequence[int], hidden: int) -> torch.Tensor:
    assert weight is not None
    return torch.cat([weight[gate * hidden : (gate + 1) * hidden] for gate in order])
