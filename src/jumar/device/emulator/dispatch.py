"""Run operators on npu tensors: relabel the arguments as CPU tensors, call the CPU kernel, relabel the results.

Every aten operator that has a CPU kernel gets a Python kernel of its own on PrivateUse1, closed over
its `Plan`; what PyTorch composes of other operators stays composed. A kernel has two forms: the fast
one, and the general one (`Plan.general`) that `detour` runs when someone listens or several logical
devices are in use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jumar.device.emulator import detour
from jumar.device.emulator.arguments import Tensor, rewrap, unwrap, wrap, written
from jumar.device.emulator.memory import require_shape, track
from jumar.device.emulator.placement import misplaced
from jumar.device.emulator.plans import CPU_KEYS, Plan
from jumar.device.emulator.retag import to_cpu, turn
from jumar.device.emulator.scalars import tensor_of
from jumar.device.emulator.state import STATE

Kernel = Callable[..., Any]
Args = Sequence[Any]
Keywords = Mapping[str, Any]


def fresh(plan: Plan) -> Kernel:
    """Kernel of an operator whose results are all new."""
    if plan.device_at is not None:
        return factory(plan)
    single, zero_dim_ok = plan.single, plan.zero_dim_ok

    def general(args: Args, kwargs: Keywords, index: int = 0) -> Any:
        cpu, keywords = unwrap(plan, args, kwargs)
        return wrap(plan.call(CPU_KEYS, *cpu, **keywords), index)

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
        result = plan.call(CPU_KEYS, *cpu)
        if type(result) is Tensor and turn(result):
            track(result)
            return result
        return wrap(result)

    def careful(*args: Any, **kwargs: Any) -> Any:
        return detour.run(plan, args, kwargs) if STATE.detour else general(args, kwargs)

    plan.general = general
    plain = not (plan.sees_conj or plan.lists or plan.cpu_ok or plan.generator_at is not None)
    return fast if plain else careful


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

    def general(args: Args, kwargs: Keywords, _index: int = 0) -> Any:
        cpu, keywords = unwrap(plan, args, kwargs)
        plan.call(CPU_KEYS, *cpu, **keywords)
        return args[0] if returns_first else written(plan, args, kwargs)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return detour.run(plan, args, kwargs) if STATE.detour else general(args, kwargs)

    plan.general = general
    return kernel


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
        cpu, keywords = unwrap(plan, args, kwargs)
        return rewrap(plan, plan.call(CPU_KEYS, *cpu, **keywords), args, kwargs, index)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return detour.run(plan, args, kwargs) if STATE.detour else general(args, kwargs)

    plan.general = general
    return kernel
