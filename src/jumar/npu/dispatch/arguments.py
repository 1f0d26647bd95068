"""Arguments and results of an operator call: npu tensors become CPU tensors, and npu tensors again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from jumar.npu.core.plans import Plan
from jumar.npu.core.retag import take, to_cpu
from jumar.npu.core.scalars import tensor_of
from jumar.npu.dispatch.placement import check_together, misplaced
from jumar.npu.dispatch.rng import to_cpu_generator
from jumar.npu.memory.memory import track

Tensor = torch.Tensor
_CPU = torch.device("cpu")

LAYOUTS: dict[torch.layout, Callable[[Tensor, int], Tensor]] = {}
"""How a CPU result of a layout that is not strided comes onto a logical device."""


def alias(tensor: Tensor) -> Tensor:
    """Return the CPU tensor over an npu tensor's memory, lazy conjugation and negation kept."""
    found = to_cpu(tensor)
    if tensor.is_conj():
        torch._C._set_conj(found, True)
    if tensor.is_neg():
        torch._C._set_neg(found, True)
    return found


def unwrap(plan: Plan, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments with CPU tensors, devices and generators in place of npu ones.

    Raises RuntimeError as PyTorch does when tensors are on different devices.
    """
    cpu = list(args)
    num = len(cpu)
    zero_dim_ok, sees_conj = plan.zero_dim_ok, plan.sees_conj
    for i in plan.single:
        if i >= num:
            break
        tensor = cpu[i]
        if not isinstance(tensor, Tensor):
            if tensor is not None:
                cpu[i] = tensor_of(tensor)
        elif tensor.is_cpu:
            if (not zero_dim_ok or tensor.dim()) and i not in plan.cpu_ok:
                misplaced(plan, args, kwargs)
        else:
            cpu[i] = alias(tensor) if sees_conj else to_cpu(tensor)
    for i in plan.lists:
        if i >= num:
            break
        if cpu[i] is not None:
            cpu[i] = _unwrap_list(plan, i, args, kwargs)
    if not kwargs and plan.generator_at is None and plan.device_at is None:
        return cpu, {}
    return cpu, _unwrap_keywords(plan, cpu, args, kwargs)


def _unwrap_list(plan: Plan, position: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    relabel = alias if plan.sees_conj else to_cpu
    found: list[Any] = []
    for item in args[position]:
        if not isinstance(item, Tensor):
            found.append(None if item is None else tensor_of(item))
        elif not item.is_cpu:
            found.append(relabel(item))
        elif (plan.zero_dim_ok and not item.dim()) or position in plan.cpu_ok:
            found.append(item)
        else:
            misplaced(plan, args, kwargs)
    return found


def _unwrap_keywords(plan: Plan, cpu: list[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments for the CPU; positional devices and generators are replaced in `cpu`."""
    found = dict(kwargs)
    for position, replace in ((plan.device_at, _to_cpu_device), (plan.generator_at, to_cpu_generator)):
        if position is None:
            continue
        name = plan.names[position]
        if position < len(cpu):
            cpu[position] = replace(cpu[position])
        elif name in found:
            found[name] = replace(found[name])
    for name in plan.keywords & found.keys():
        value = found[name]
        if value is None:
            continue
        many = not isinstance(value, Tensor)
        items = [_unwrap_keyword(plan, item, args, kwargs) for item in (value if many else (value,))]
        found[name] = items if many else items[0]
    if found.get("pin_memory"):
        raise RuntimeError("Only dense CPU tensors can be pinned")
    return found


def _unwrap_keyword(plan: Plan, item: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if not isinstance(item, Tensor):
        return None if item is None else tensor_of(item)
    if not item.is_cpu:
        return alias(item) if plan.sees_conj else to_cpu(item)
    if item.dim() or plan.form == "out" or not plan.zero_dim_ok:
        misplaced(plan, args, kwargs)
    return item


def _to_cpu_device(device: torch.device | None) -> torch.device | None:
    return _CPU if device is not None and device.type == "npu" else device


def wrap(result: Any, index: int = 0) -> Any:
    """Return a fresh CPU result, or the tensors in it, on the logical device `index`, and count their memory."""
    if isinstance(result, Tensor):
        if result.is_conj():
            result = result.resolve_conj()
        if result.is_neg():
            result = result.resolve_neg()
        if result.layout is not torch.strided:
            return _wrap_layout(result, index)
        if result.is_quantized:
            raise NotImplementedError(
                "the emulated NPU has no tensors of PyTorch's quantized types; use torch_npu.npu_quantize and integers"
            )
        npu = take(result)
        track(npu, index)
        return npu
    if isinstance(result, (list, tuple)):
        return type(result)([wrap(item, index) for item in result])
    return result


def _wrap_layout(result: Tensor, index: int) -> Tensor:
    if result.layout not in LAYOUTS:
        raise NotImplementedError(
            f"the emulated NPU has no tensors of layout {result.layout}; keep this tensor dense, or on the CPU"
        )
    return LAYOUTS[result.layout](result, index)


def written(plan: Plan, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the arguments that the operator returns."""
    found = tuple(_argument(plan, position, args, kwargs) for position in plan.results)
    return found[0] if len(found) == 1 else found or None


def _argument(plan: Plan, position: int | None, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if position is None:
        return None
    return args[position] if position < len(args) else kwargs[plan.names[position]]


def rewrap(plan: Plan, result: Any, args: Sequence[Any], kwargs: Mapping[str, Any], index: int = 0) -> Any:
    """Return results on the npu: new ones relabelled, written arguments as they came."""
    items = result if isinstance(result, tuple) else (result,)
    found = tuple(
        wrap(item, index) if position is None else _argument(plan, position, args, kwargs)
        for item, position in zip(items, plan.results, strict=False)
    )
    return found if isinstance(result, tuple) else found[0] if found else None


def composed(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel of an operator that is computed from CPU tensors by a Python function.

    Its tensors must all be on one device, and that is where the results go.
    """

    def kernel(*args: Any, **kwargs: Any) -> Any:
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        index = check_together(tensors) if tensors else 0
        cpu = [alias(value) if isinstance(value, Tensor) else value for value in args]
        keywords = {name: alias(value) if isinstance(value, Tensor) else value for name, value in kwargs.items()}
        return wrap(compute(*cpu, **keywords), index)

    return kernel
