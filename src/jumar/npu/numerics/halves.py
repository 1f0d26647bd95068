"""float16 and bfloat16 tensors are calculated in float32, and each result is rounded once: `layer`.

An NPU's kernels cast halves to float32, sum there and cast the result (op-plugin's tests compare with the CPU's float32
result, rounded). Many CPU kernels round after each addition instead: `nll_loss`, batch normalization's gradient,
`grid_sampler_2d`, `prod`. So every operator that calculates and is not elementwise is widened, by the vocabulary of
operators. Most elementwise CPU kernels round once by themselves; those of `_ROUNDS_OFTEN_ON_CPU` do not, and are
widened too. Products and convolutions are in `cube`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from jumar.npu.core.overloads import tensors_in
from jumar.npu.core.plans import Call, Plan
from jumar.npu.dispatch import policy
from jumar.npu.numerics import arithmetic, operators
from jumar.operators import Trait, functional_name, has_any, writes

Tensor = torch.Tensor
_HALVES = frozenset({torch.float16, torch.bfloat16})
Signature = tuple[tuple[torch.dtype, int], ...]
"""Of each tensor its dtype, and what else decides the dtype of a result: `_kind`."""


_ROUNDED_OTHERWISE: tuple[Trait, ...] = (
    "elementwise",
    "pointwise",
    "optimizer",  # elementwise
    "attention",  # has a kernel of its own
    "random",  # would draw other numbers
    "checks",
    "no_half_on_cpu",  # `wider` widens it
)


_ROUNDS_OFTEN_ON_CPU = frozenset({
    "_foreach_add", "_foreach_pow", "_foreach_rsqrt", "_foreach_sub", "add", "erfinv", "logit", "logit_backward", "pow",
    "rsqrt", "rsub", "sigmoid_backward", "sub", "tanh_backward", "xlogy",
})  # fmt: skip
"""Elementwise operators whose CPU kernel rounds a part of the formula, or the scalar, to the half type.

Some do so only for the elements that fill no vector of the processor, so that a result depends on its place."""


def calculates_in_float32(name: str) -> bool:
    """Return whether the NPU calculates this operator's halves in float32 where a CPU kernel may round more often.

    Operators of other libraries, the vendor's `npu` among them, widen what they want to.
    """
    if not name.startswith("aten::") or operators.is_cube(name) or not operators.computes(name):
        return False
    return functional_name(name) in _ROUNDS_OFTEN_ON_CPU or not has_any(name, *_ROUNDED_OTHERWISE)


def layer(plan: Plan, call: Call) -> Call:
    """Widen the halves of an operator that calculates; others, and those that run on the host, keep their call."""
    if plan.form == "view" or not arithmetic.is_strict() or not calculates_in_float32(plan.name):
        return call
    if policy.runs_on_host(plan.name):
        return call
    known: dict[Signature, tuple[torch.dtype | None, ...]] = {}
    needs_no_care = _rounds_once(plan)
    written = {position: plan.names[position] for position in writes(plan.name)}

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if needs_no_care(args, kwargs):
            return call(keys, *args, **kwargs)
        signature = _signature(args, kwargs)
        narrow = next((dtype for dtype, _ in signature if dtype in _HALVES), None)
        if narrow is None or (written and _shows_own_memory(written, args, kwargs)):
            return call(keys, *args, **kwargs)
        wide = [_cast(value, narrow) for value in args]
        named = {name: _cast(value, narrow) for name, value in kwargs.items()}
        if signature not in known:
            known[signature] = _result_dtypes(call, keys, args, kwargs)
        result = call(keys, *wide, **named)
        for position, name in written.items():
            if position < len(args):
                _write_back(args[position], wide[position])
            elif name in kwargs:
                _write_back(kwargs[name], named[name])
        return _rounded(result, known[signature], narrow)

    return run


_ROUNDS_ONCE_WITH = {"accumulate": False, "alpha": 1, "half_to_float": True}
"""By the name of an argument, the value with which the CPU's kernel rounds at most once."""

_DEFAULTS = {"accumulate": False, "alpha": 1}


def _rounds_once(plan: Plan) -> Callable[[Sequence[Any], Mapping[str, Any]], bool]:
    """Return what says of a call's arguments that the CPU's kernel rounds at most once with them."""
    name = next((name for name in _ROUNDS_ONCE_WITH if name in plan.names), "")
    place = plan.names.index(name) if name else -1

    def rounds_once(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        if not name:
            return False
        given = args[place] if place < len(args) else kwargs.get(name, _DEFAULTS.get(name))
        return bool(given == _ROUNDS_ONCE_WITH[name])

    return rounds_once


def _shows_own_memory(written: Mapping[int, str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a tensor that is written shows an element twice, or another argument shows its memory.

    Only the kernel itself tells what it refuses of that; wide copies would hide it.
    """
    targets = [args[i] if i < len(args) else kwargs.get(name) for i, name in written.items()]
    for target in (item for value in targets for item in _items(value) if isinstance(item, Tensor)):
        if any(step == 0 and size > 1 for step, size in zip(target.stride(), target.shape, strict=True)):
            return True
        storage = target.untyped_storage()._cdata
        others = (item for item in tensors_in((*args, *kwargs.values())) if item is not target)
        if any(item.untyped_storage()._cdata == storage for item in others):
            return True
    return False


_STEPWISE = frozenset({"_foreach_addcdiv", "_foreach_addcmul", "_foreach_sub"})
"""The vendor's tests compare them with a quotient or product, a scaling and a sum, rounded one by one in float16."""


def stepwise_layer(plan: Plan, call: Call) -> Call:
    """Round float16 after each step where the chip does; others keep their call.

    Source: `test_foreach_addcdiv*.py`, `test_foreach_addcmul*.py` and `test_foreach_sub_list.py` of op-plugin.
    bfloat16 is rounded once there, and so is float16 by `_foreach_add`.
    """
    base = functional_name(plan.name)
    subtracts = base == "_foreach_sub"
    if base not in _STEPWISE or plan.form == "out" or not arithmetic.is_strict():
        return call
    if subtracts and "alpha" not in plan.names:
        return call

    def run(keys: Any, first: Sequence[Tensor], *rest: Any, **kwargs: Any) -> Any:
        if not first or first[0].dtype is not torch.float16:
            return call(keys, first, *rest, **kwargs)
        num = 1 if subtracts else 2
        parts = _parts(base, *rest[:num])
        factors = _factors((*rest[num:], *kwargs.values(), 1)[0], len(first))
        scaled = [part * factor for part, factor in zip(parts, factors, strict=True)]
        found = [x - part if subtracts else x + part for x, part in zip(first, scaled, strict=True)]
        if plan.form == "fresh":
            return found
        for target, result in zip(first, found, strict=True):
            target.copy_(result)
        return None

    return run


def _parts(base: str, one: Sequence[Tensor], other: Sequence[Tensor] = ()) -> Sequence[Tensor]:
    """Return what a list's operator scales before it adds or subtracts."""
    if base == "_foreach_sub":
        return one
    return [a / b if base == "_foreach_addcdiv" else a * b for a, b in zip(one, other, strict=True)]


def _factors(value: Any, num: int) -> Tensor:
    """Return a factor for each of `num` tensors in float16, from one number or one for each."""
    is_list = isinstance(value, (list, tuple)) or (isinstance(value, Tensor) and value.dim())
    return torch.as_tensor(value, dtype=torch.float16, device="cpu").expand(-1 if is_list else num)


def infinite_distance_layer(plan: Plan, call: Call) -> Call:
    """Let the gradient of a maximum distance of halves go where the difference reaches the rounded distance.

    The chip computes differences in float32 and compares them with the distance as it is kept, in the half type
    (`test_cdist_backward.py` of op-plugin). Others keep their call.
    """
    if plan.name != "aten::_cdist_backward" or not arithmetic.is_strict():
        return call

    def run(keys: Any, grad: Tensor, x1: Tensor, x2: Tensor, p: float, distance: Tensor) -> Any:
        if p != float("inf") or x1.dtype not in _HALVES:
            return call(keys, grad, x1, x2, p, distance)
        difference = x1.float().unsqueeze(-2) - x2.float().unsqueeze(-3)
        reaches = difference.abs() >= distance.float().unsqueeze(-1)
        parts = difference.sign() * reaches * grad.float().unsqueeze(-1)
        return parts.sum(-2).to(x1.dtype)

    return run


def _signature(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Signature:
    """Return the dtypes of a call: of its tensors, and those that it asks for."""
    found: list[tuple[torch.dtype, int]] = []
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor):
            found.append((value.dtype, _kind(value)))
        elif isinstance(value, torch.dtype):
            found.append((value, 1))
        elif isinstance(value, (list, tuple)):
            found.extend((item.dtype, _kind(item)) for item in value if isinstance(item, Tensor))
    return tuple(found)


def _kind(tensor: Tensor) -> int:
    """Return 0 for a scalar, which does not widen a result, 2 for an empty tensor, which `bincount` does not weigh."""
    return 0 if tensor.dim() == 0 else 1 if tensor.numel() else 2


def _result_dtypes(
    call: Call, keys: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[torch.dtype | None, ...]:
    """Return the dtypes that the CPU's own kernel gives; none where it has no kernel for halves.

    It runs once for each combination of dtypes, on copies, because it may write what its schema does not mark.
    """
    try:
        copies = [_copied(value) for value in args]
        result = call(keys, *copies, **{name: _copied(value) for name, value in kwargs.items()})
    except RuntimeError:
        return ()
    return tuple(item.dtype if isinstance(item, Tensor) else None for item in _items(result))


def _items(result: Any) -> Sequence[Any]:
    return result if isinstance(result, (list, tuple)) else (result,)


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    return [_copied(item) for item in value] if isinstance(value, (list, tuple)) else value


def _cast(value: Any, narrow: torch.dtype) -> Any:
    """Return tensors of the narrow dtype, and that dtype itself, as float32."""
    if isinstance(value, Tensor):
        return value.float() if value.dtype is narrow else value
    if isinstance(value, torch.dtype):
        return torch.float32 if value is narrow else value
    if isinstance(value, (list, tuple)) and any(True for _ in tensors_in(value)):
        return [_cast(item, narrow) for item in value]
    return value


def _write_back(target: Any, source: Any) -> None:
    """Round what the operator wrote into the tensors that it was given."""
    for tensor, wide in zip(_items(target), _items(source), strict=True):
        if isinstance(tensor, Tensor) and tensor is not wide:
            if tensor.shape != wide.shape:
                tensor.resize_(wide.shape)
            tensor.copy_(wide)


def _rounded(result: Any, dtypes: Sequence[torch.dtype | None], narrow: torch.dtype) -> Any:
    """Return the results in the dtypes that the CPU's kernel gives, float32 ones in the narrow dtype if unknown."""
    if isinstance(result, Tensor):
        wanted = (dtypes[0] if dtypes else None) or (narrow if result.dtype is torch.float32 else result.dtype)
        return result.to(wanted)
    if isinstance(result, (list, tuple)):
        parts = [_rounded(item, dtypes[i : i + 1], narrow) for i, item in enumerate(result)]
        return type(result)(parts)
    return result
