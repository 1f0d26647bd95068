"""`plain_operators`: functions in simpler ones, where the TorchScript exporter has no words for them.

The exported file is compared with the model as it is, so a fault here would show.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_ABSENT = object()


@contextlib.contextmanager
def plain_operators() -> Iterator[None]:
    """Within the block attention, triangles and `unflatten` are written with operators that every operator set has."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # the fused encoder layer is one operator, too
    replaced: dict[Any, Callable[..., Any]] = {}
    undo: list[tuple[Any, str, Any]] = []
    try:
        for home, name, plain in PLAIN:
            replaced[getattr(home, name)] = plain
            undo.append((home, name, vars(home).get(name, _ABSENT)))
        for home, name, plain in PLAIN:
            setattr(home, name, plain)
        with _Plain(replaced):
            yield
    finally:
        for home, name, own in undo:
            if own is _ABSENT:
                delattr(home, name)
            else:
                setattr(home, name, own)
        torch.backends.mha.set_fastpath_enabled(fast)


class _Plain(TorchFunctionMode):
    """Replaces the functions where a program has imported them by name; it is off within torch's own functions."""

    def __init__(self, replaced: dict[Any, Callable[..., Any]]) -> None:
        super().__init__()
        self._replaced = replaced

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._replaced.get(func, func)(*args, **(kwargs or {}))


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,  # noqa: ARG001 - the caller gives it; in eval mode it is 0
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Return what `torch.nn.functional.scaled_dot_product_attention` does by its documentation, without dropout.

    `query` is (..., L, E), `key` (..., S, E), `value` (..., S, Ev); a mask of bool says what takes part.
    """
    if enable_gqa:
        repeats = query.size(-3) // key.size(-3)
        key, value = key.repeat_interleave(repeats, -3), value.repeat_interleave(repeats, -3)
    factor = 1.0 / math.sqrt(query.size(-1)) if scale is None else scale
    scores = torch.matmul(query * factor, key.transpose(-2, -1))
    if is_causal:
        rows, columns = torch.arange(query.size(-2)), torch.arange(key.size(-2))
        attn_mask = columns.unsqueeze(0) <= rows.unsqueeze(1)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(torch.logical_not(attn_mask), float("-inf"))
    elif attn_mask is not None:
        scores = scores + attn_mask
    return torch.matmul(torch.softmax(scores, -1), value)


def unflatten(tensor: torch.Tensor, dim: int, sizes: Any) -> torch.Tensor:
    """Return what `torch.unflatten` does, by a reshape."""
    shape, at = list(tensor.shape), dim % tensor.dim()
    return tensor.reshape([*shape[:at], *sizes, *shape[at + 1 :]])


def tril(tensor: torch.Tensor, diagonal: int = 0) -> torch.Tensor:
    """Return what `torch.tril` does, by a comparison of positions."""
    return _where(tensor, lambda rows, columns: columns <= rows + diagonal)


def triu(tensor: torch.Tensor, diagonal: int = 0) -> torch.Tensor:
    """Return what `torch.triu` does, by a comparison of positions."""
    return _where(tensor, lambda rows, columns: columns >= rows + diagonal)


def _where(tensor: torch.Tensor, keep: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> torch.Tensor:
    rows, columns = torch.arange(tensor.size(-2)).unsqueeze(1), torch.arange(tensor.size(-1)).unsqueeze(0)
    if tensor.dtype == torch.bool:
        return torch.logical_and(tensor, keep(rows, columns))
    return torch.where(keep(rows, columns), tensor, torch.zeros((), dtype=tensor.dtype))


PLAIN: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (torch.nn.functional, "scaled_dot_product_attention", attention),
    (torch, "unflatten", unflatten),
    (torch.Tensor, "unflatten", unflatten),
    (torch, "tril", tril),
    (torch.Tensor, "tril", tril),
    (torch, "triu", triu),
    (torch.Tensor, "triu", triu),
)
"""Where a function stands, its name, and what it is written with."""
