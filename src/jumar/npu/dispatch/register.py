"""Put the Python kernels into PyTorch's dispatcher."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from jumar.npu.core.overloads import overload_of
from jumar.npu.core.plans import CPU_KEYS, PLANS, Plan
from jumar.npu.core.versions.kernels import get_kernel
from jumar.npu.dispatch import detour
from jumar.npu.dispatch import forms as dispatch
from jumar.npu.dispatch.forms import out
from jumar.npu.dispatch.placement import MixedDevicesError
from jumar.operators import has

_has = torch._C._dispatch_has_kernel_for_dispatch_key

LEFT_COMPOSED = frozenset(
    {
        "aten::set",
        "aten::resize",
        "aten::is_pinned",
        "aten::_pin_memory",
        "aten::_coalesced",
        "aten::_assert_tensor_metadata",
        "aten::sym_constrain_range",
        "aten::sym_constrain_range_for_size",
    }
)
"""Operators that PyTorch composes and that must stay so, because their composition is right for any device.

The list is a judgement: nothing in PyTorch's schemas or tags says that a composition is right on every device.
"""


def own_operators() -> Iterator[str]:
    """Yield the aten overloads that get a kernel: those with a CPU kernel, and functional compositions.

    A composition that the CPU would run in one call is run so here too, which saves the Python round
    trips of its parts; views stay composed, because PyTorch builds them on `as_strided` for any device. So do
    operators whose results are views of which their schema says nothing (`unsafe_split`).
    """
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("aten::") or name.partition(".")[0] in LEFT_COMPOSED:
            continue
        if _has(name, "CPU") or (
            _has(name, "CompositeExplicitAutograd") and not (name.endswith("out") or has(name, "hidden_view"))
        ):
            yield name


def make_kernel(plan: Plan) -> Callable[..., Any] | None:
    """Return the kernel for this plan, or None when the operator is better left composed."""
    if plan.composed and (plan.form in ("view", "mixed") or torch.Tag.inplace_view in overload_of(plan.name).tags):
        return None
    makers: dict[str, Callable[[Plan], Callable[..., Any]]] = {
        "fresh": dispatch.fresh,
        "inplace": dispatch.inplace,
        "view": dispatch.view,
        "mixed": dispatch.mixed,
        "out": out,
    }
    kernel = makers[plan.form](plan)
    if plan.name == "aten::_index_put_impl_":
        return _into_host_memory(plan, kernel)
    return _composing(plan, kernel) if plan.composed else kernel


def _into_host_memory(plan: Plan, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel of an assignment that the host does where its memory is written, though indices are npu's.

    op-plugin hands such a call to PyTorch's own kernel (`IndexPutKernelNpuOpApi.cpp`).
    """

    def call(x: Any, indices: Any, values: Any, *rest: Any) -> Any:
        if not (x.is_cpu and values.is_cpu):
            return kernel(x, indices, values, *rest)
        places = [item if item is None else item.cpu() for item in indices]
        return get_kernel(plan.name, "CPU").call_boxed(CPU_KEYS, x, places, values, *rest)

    return call


def _composing(plan: Plan, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return the kernel of a composed operator, which leaves calls that mix devices to the composition."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return kernel(*args, **kwargs)
        except MixedDevicesError:
            return get_kernel(plan.name, "CPU").call_boxed(CPU_KEYS, *args, **kwargs)

    return call


def register_all(
    library: Any,
    special: dict[str, Callable[..., Any]],
    composites: dict[str, Callable[..., Any]],
    above: dict[str, Callable[..., Any]],
) -> None:
    """Register every kernel: the general ones and `special` ones on PrivateUse1, `composites` above autograd.

    Kernels of `above` stand on the autograd key and leave the one below it.
    """
    for name in own_operators():
        if name in special or name in composites:
            continue
        plan = Plan(name)
        kernel = make_kernel(plan)
        if kernel is not None:
            PLANS[name] = plan
            library.impl(name.removeprefix("aten::"), "PrivateUse1", kernel, False)
    for name, kernel in special.items():
        library.impl(name.removeprefix("aten::"), "PrivateUse1", detour.observed(name, kernel), False)
    for name, kernel in composites.items():
        for key in ("AutogradPrivateUse1", "PrivateUse1"):
            library.impl(name.removeprefix("aten::"), key, kernel, False)
    for name, kernel in above.items():
        library.impl(name.removeprefix("aten::"), "AutogradPrivateUse1", kernel, False)


def register_fallback(library: Any) -> None:
    """Register the boxed fallback, which serves operators of other libraries that have a CPU kernel."""
    library.fallback(_fallback, "PrivateUse1")


@functools.cache
def _late_kernel(name: str) -> Callable[..., Any]:
    if not torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU"):
        raise NotImplementedError(
            f"Could not run '{name}' with arguments from the 'npu' backend: neither the emulated NPU nor the CPU has "
            "a kernel for it."
        )
    plan = Plan(name)
    PLANS[name] = plan
    kernel = make_kernel(plan)
    return kernel if kernel is not None else dispatch.mixed(plan)


def _fallback(operator: Any, *args: Any, **kwargs: Any) -> Any:
    return _late_kernel(
        operator._schema.name + ("." + operator._overloadname if operator._overloadname != "default" else "")
    )(*args, **kwargs)
