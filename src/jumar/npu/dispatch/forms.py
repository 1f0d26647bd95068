"""Run operators on npu tensors: relabel the arguments as CPU tensors, call the CPU kernel, relabel the results.

Every aten operator that has a CPU kernel gets a Python kernel of its own on PrivateUse1, closed over
its `Plan`; what PyTorch composes of other operators stays composed. A kernel has two forms: the fast
one, and the general one (`Plan.general`) that `detour` runs when someone listens or several logical
devices are in use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from jumar.npu.core.plans import CPU_KEYS, Plan
from jumar.npu.core.refusals import error_line
from jumar.npu.core.retag import to_cpu, turn
from jumar.npu.core.scalars import tensor_of
from jumar.npu.core.state import STATE
from jumar.npu.dispatch import detour
from jumar.npu.dispatch.arguments import Tensor, rewrap, unwrap, wrap, written
from jumar.npu.dispatch.overlap import call_staged, shares, unwrap_written
from jumar.npu.dispatch.placement import misplaced
from jumar.npu.dispatch.policy import runs_on_host
from jumar.npu.memory.memory import require_shape, track
from jumar.npu.memory.storage import adopt, reshape
from jumar.operators import functional_name, is_foreach

Kernel = Callable[..., Any]
Args = Sequence[Any]
Keywords = Mapping[str, Any]


_SIZED_BY_ADAPTER = frozenset({
    "all", "aminmax", "any", "argmax", "argmin", "index_select", "linalg_vector_norm", "logsumexp", "mean", "nansum",
    "norm", "prod", "std", "std_mean", "sum", "var", "var_mean",
})  # fmt: skip
"""Operators whose result's size op-plugin computes (`op_plugin/utils/KernelNpuOutputSize.cpp`).

It raises RuntimeError for a dimension that there is not, where PyTorch raises IndexError."""


def _raises_runtime_error(plan: Plan) -> bool:
    return functional_name(plan.name) in _SIZED_BY_ADAPTER and not runs_on_host(plan.name)


def _invalid(error: IndexError) -> str:
    return f"{error}{error_line('OPS', 1, 'invalid parameter')}"


def careful(plan: Plan, general: Kernel) -> Kernel:
    """Return the kernel that always takes the general form, and let the plan know this form."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return detour.run(plan, args, kwargs) if STATE.detour else general(args, kwargs)

    plan.general = general
    return kernel


def fresh(plan: Plan) -> Kernel:
    """Kernel of an operator whose results are all new."""
    if plan.device_at is not None:
        return factory(plan)
    single, zero_dim_ok = plan.single, plan.zero_dim_ok

    def general(args: Args, kwargs: Keywords, index: int = 0) -> Any:
        cpu, keywords = unwrap(plan, args, kwargs)
        try:
            result = plan.call(CPU_KEYS, *cpu, **keywords)
        except IndexError as error:
            if _raises_runtime_error(plan):
                raise RuntimeError(_invalid(error)) from error
            raise
        return wrap(result, index)

    # NOTE: the loop is `unwrap` written out for the common case; the call it saves is 0.4 us of about 9.
    def fast(*args: Any, **kwargs: Any) -> Any:
        if STATE.detour:
            return detour.run(plan, args, kwargs)
        if kwargs:
            return general(args, kwargs)
        cpu = list(args)
        num = len(cpu)
        for i in single:
            if i >= num:
                break
            tensor = cpu[i]
            if not isinstance(tensor, Tensor):
                if tensor is not None:
                    cpu[i] = tensor_of(tensor)
            elif not tensor.is_cpu:
                cpu[i] = to_cpu(tensor)
            elif not zero_dim_ok or tensor.dim():
                misplaced(plan, args, kwargs)
        try:
            result = plan.call(CPU_KEYS, *cpu)
        except IndexError as error:
            if _raises_runtime_error(plan):
                raise RuntimeError(_invalid(error)) from error
            raise
        if type(result) is Tensor and turn(result):
            track(result)
            return result
        return wrap(result)

    general_only = careful(plan, general)
    plain = not (plan.sees_conj or plan.lists or plan.cpu_ok or plan.generator_at is not None)
    return fast if plain else general_only


def factory(plan: Plan) -> Kernel:
    """Kernel of an operator with a `device` argument, which says where its new result goes."""
    position = plan.device_at or 0
    name = plan.names[position]
    size_at = plan.names.index("size") if "size" in plan.names else None
    like_at = plan.names.index("self") if "self" in plan.names else None

    def general(args: Args, kwargs: Keywords, index: int = 0) -> Any:
        like = None if like_at is None else args[like_at] if like_at < len(args) else kwargs.get("self")
        size = None if size_at is None else args[size_at] if size_at < len(args) else kwargs.get("size")
        require_shape(like.shape if size is None and like is not None else size, kwargs.get("dtype"), like, index)
        cpu, keywords = unwrap(plan, args, kwargs)
        result = plan.call(CPU_KEYS, *cpu, **keywords)
        device = args[position] if position < len(args) else kwargs.get(name)
        return wrap(result, index) if device is None or device.type == "npu" else result

    def kernel(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get(name)
        if STATE.detour or (device is not None and device.index):
            return detour.run(plan, args, kwargs)
        return general(args, kwargs)

    plan.general = general
    return kernel


def inplace(plan: Plan) -> Kernel:
    """Kernel of an operator that writes its arguments and returns those, or nothing."""
    returns_first = plan.results == (0,)
    counts_itself = not plan.results and is_foreach(plan.name)

    def general(args: Args, kwargs: Keywords, _index: int = 0) -> Any:
        cpu, keywords = unwrap_written(plan, args, kwargs)
        plan.call(CPU_KEYS, *cpu, **keywords)
        if counts_itself:  # PyTorch counts the versions of what an operator returns; these return nothing
            torch._C._increment_version([item for item in args[0] if not item.is_inference()])
        return args[0] if returns_first else written(plan, args, kwargs)

    return careful(plan, general)


def view(plan: Plan) -> Kernel:
    """Kernel of an operator that only makes another view: PyTorch's own kernel works on the npu tensor itself."""

    def general(args: Args, kwargs: Keywords, _index: int = 0) -> Any:
        return plan.call(CPU_KEYS, *args, **kwargs)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if STATE.detour:
            return detour.run(plan, args, kwargs)
        return plan.call(CPU_KEYS, *args, **kwargs)

    plan.general = general
    return kernel


def mixed(plan: Plan) -> Kernel:
    """Kernel of an operator that writes some arguments and returns new results beside them."""

    def general(args: Args, kwargs: Keywords, index: int = 0) -> Any:
        cpu, keywords = unwrap_written(plan, args, kwargs)
        return rewrap(plan, plan.call(CPU_KEYS, *cpu, **keywords), args, kwargs, index)

    return careful(plan, general)


def out(plan: Plan) -> Kernel:
    """Kernel of an operator that writes its keyword arguments; one of another shape is resized."""

    def general(args: Any, kwargs: Any, _index: int = 0) -> Any:
        _call_with_outputs(plan, args, kwargs)
        return written(plan, args, kwargs)

    return careful(plan, general)


def _call_with_outputs(plan: Plan, args: Any, kwargs: dict[str, Any]) -> None:
    """Run the operator and bring what it resized back to the npu tensors."""
    cpu, keywords = unwrap_written(plan, args, kwargs)
    targets = [(name, kwargs[name]) for name in plan.keywords & kwargs.keys() if isinstance(kwargs[name], Tensor)]
    is_shared = shares(plan, args, kwargs)
    for name, target in targets:
        if not (target.numel() or is_shared):
            keywords[name] = _replacement(target)
    try:
        plan.call(CPU_KEYS, *cpu, **keywords)
    except IndexError as error:
        if _raises_runtime_error(plan):
            raise RuntimeError(_invalid(error)) from error
        raise
    except RuntimeError as error:
        if "not resizable" not in str(error):
            raise
        # NOTE: memory behind an npu tensor cannot grow in place. The kernel has raised while it prepared its outputs,
        # before any work, so it can be called again with outputs of its own.
        if is_shared:
            call_staged(plan, args, kwargs, [target for _, target in targets])
            return
        keywords.update({name: _replacement(target) for name, target in targets})
        plan.call(CPU_KEYS, *cpu, **keywords)
        # NOTE: an output that had the right shape keeps its memory, as it would on any device.
    for name, target in targets:
        _bring_back(keywords[name], target)


def _replacement(target: Tensor) -> Tensor:
    """Return a CPU tensor that can grow, in place of an output: an empty one of the same shape, where it is empty."""
    if target.numel():
        return torch.empty(0, dtype=target.dtype, device="cpu")
    return torch.empty_strided(target.shape, target.stride(), dtype=target.dtype, device="cpu")


def _bring_back(result: Tensor, target: Tensor) -> None:
    """Give the npu tensor `target` the value and shape of the CPU tensor `result`, where they differ."""
    same_memory = result.data_ptr() == target.data_ptr()
    if result.shape == target.shape and not (result.numel() == 0 and result.stride() != target.stride()):
        if not same_memory:
            to_cpu(target).copy_(result)
        elif result.stride() != target.stride():
            reshape(target, result.shape, result.stride())
    elif same_memory and result.numel():
        reshape(target, result.shape, result.stride())
    else:
        adopt(target, result)
