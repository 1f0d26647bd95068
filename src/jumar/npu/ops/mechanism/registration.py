"""Put the custom operators into PyTorch's dispatcher, as `torch.ops.npu`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map

from jumar.npu.core.overloads import overload_of, tensors_in
from jumar.npu.core.plans import CPU_KEYS, PLANS, Plan
from jumar.npu.core.retag import to_cpu
from jumar.npu.dispatch import detour, policy, register
from jumar.npu.dispatch.arguments import unwrap
from jumar.npu.dispatch.forms import careful
from jumar.npu.memory.memory import index_of
from jumar.npu.memory.storage import repoint
from jumar.npu.ops.mechanism import gradients
from jumar.npu.ops.mechanism.implement import (
    IMPLEMENTATIONS,
    OWN,
    Implementation,
    Own,
    arguments,
    not_implemented,
)
from jumar.npu.ops.mechanism.schemas import NAMESPACE, Schema, schemas

_KEY = "Functionalize"
_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.Functionalize)


def pairs() -> Iterator[tuple[Schema, Schema]]:
    """Yield each operator that writes its first argument and returns it, with its functional twin."""
    for schema in schemas().values():
        twin = schemas().get(schema.base.removesuffix("_"))
        if schema.name.endswith("_") and twin is not None and _is_twin(schema, twin):
            yield schema, twin


def _is_twin(schema: Schema, twin: Schema) -> bool:
    first = schema.parsed.arguments[0].name
    return schema.written == (first,) and len(schema.parsed.returns) == 1 and _types(schema) == _types(twin)


def _types(schema: Schema) -> list[tuple[str, str]]:
    return [(argument.name, str(argument.type)) for argument in schema.parsed.arguments]


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and torch._is_functional_tensor(value):
        torch._sync(value)  # type: ignore[no-untyped-call, attr-defined]
        return torch._from_functional_tensor(value)
    return value


def _replacing(twin: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that computes the new value with `twin` and puts it in place of the first argument."""

    def kernel(target: Any, *args: Any, **kwargs: Any) -> Any:
        given, named = tree_map(_plain, ((target, *args), kwargs))
        with torch._C._ExcludeDispatchKeyGuard(_KEYS):
            result = twin(*given, **named)
        if not torch._is_functional_tensor(target):
            return target.copy_(result)
        torch._functionalize_replace(target, result)
        torch._functionalize_commit_update(target)
        torch._functionalize_sync(target)
        return target

    return kernel


def _register_functional(library: Any) -> None:
    """Register the kernels of all pairs; the operators must have been defined."""
    for schema, twin in pairs():
        functional = getattr(getattr(torch.ops, NAMESPACE), twin.name).default
        library.impl(schema.name, _KEY, _replacing(functional), False)


Tensor = torch.Tensor
_libraries: list[Any] = []
"""Kept alive: PyTorch drops the kernels of a library that is collected."""


def register_all() -> None:
    """Define every schema and register its kernels."""
    make: Any = torch.library.Library
    library, backward = make(NAMESPACE, "FRAGMENT"), make(gradients.NAMESPACE, "DEF")
    _libraries.extend((library, backward))
    for schema in schemas().values():
        library.m.define(schema.text, "", ())
        implementation, own = IMPLEMENTATIONS.get(schema.name), OWN.get(schema.name)
        if own is not None:
            adopt(library.m, schema, own)
        elif implementation is None:
            refuse(library.m, schema)
        else:
            provide(library.m, backward.m, implementation)
    _register_functional(library.m)


def register_one(implementation: Implementation) -> None:
    """Define and register an operator of another library than the vendor's. A schema that is there already stays."""
    schema, make = implementation.schema, torch.library.Library
    library: Any = make(schema.namespace, "FRAGMENT")  # type: ignore[no-untyped-call]
    backward: Any = make(gradients.NAMESPACE, "FRAGMENT")  # type: ignore[no-untyped-call]
    _libraries.extend((library, backward))
    if not torch._C._dispatch_has_kernel(schema.qualified):
        library.m.define(schema.text, "", ())
    policy.OF_OTHERS.update((schema.qualified, _shown_backward(implementation)))
    provide(library.m, backward.m, implementation)


def refuse(library: Any, schema: Schema) -> None:
    """Register kernels that say what is not there."""
    kernel = not_implemented(schema)
    for key in ("PrivateUse1", "Meta") if schema.takes_tensors else ("BackendSelect",):
        library.impl(schema.name, key, kernel, False)


def adopt(library: Any, schema: Schema, own: Own) -> None:
    """Register an operator that has kernels of its own."""
    kernel = detour.observed(schema.qualified, own.kernel)
    library.impl(schema.name, "PrivateUse1" if schema.takes_tensors else "BackendSelect", kernel, False)
    if schema.takes_tensors:
        library.impl(schema.name, "Meta", own.meta, False)
    if own.autograd is not None:
        library.impl(schema.name, "AutogradPrivateUse1", own.autograd, True)


def provide(library: Any, backward: Any, implementation: Implementation) -> None:
    """Register the kernels of one implemented overload."""
    schema = implementation.schema
    name = schema.name
    plan = _plan(schema.qualified, schema.qualified, computing(implementation))
    library.impl(name, "PrivateUse1" if schema.takes_tensors else "BackendSelect", _kernel(plan, schema), False)
    library.impl(name, "Meta", shapes(implementation), False)
    if not implementation.differentiable:
        return
    backward.define(gradients.backward_schema(implementation), "", ())
    formula = gradients.vector_jacobian(implementation)
    qualified = f"{gradients.NAMESPACE}::{schema.backward}"
    backward_plan = _plan(qualified, _shown_backward(implementation), formula)
    backward.impl(schema.backward, "PrivateUse1", register.make_kernel(backward_plan), False)
    backward.impl(schema.backward, "Meta", gradients.backward_shapes, False)
    operator = overload_of(schema.qualified)
    library.impl(name, "AutogradPrivateUse1", gradients.recording(implementation, operator), True)


def _shown_backward(implementation: Implementation) -> str:
    """Return the name under which a backward is seen: the vendor's, or that of the operator which computes it."""
    schema = implementation.schema
    is_vendors = schema.namespace == NAMESPACE
    return f"{NAMESPACE}::{implementation.backward}" if is_vendors else f"{gradients.NAMESPACE}::{schema.backward}"


def _plan(qualified: str, shown: str, call: Callable[..., Any]) -> Plan:
    """Return the plan of an operator that is computed by `call`; its events are called `shown`."""
    plan = Plan(qualified)
    plan.name, plan.composed, plan.kernel = shown, False, call
    PLANS[qualified] = plan
    return plan


def computing(implementation: Implementation) -> Callable[..., Any]:
    """Return the operator on CPU tensors, in the form plans call."""
    schema, function = implementation.schema, implementation.function
    is_new = _is_new(schema)
    outs = {a.name for a in schema.parsed.arguments if a.kwarg_only and a.name in schema.written}
    hidden = set() if implementation.reads_out else outs

    def call(_keys: Any, *args: Any, **kwargs: Any) -> Any:
        positional, keywords = arguments(schema, args, kwargs)
        for name in hidden:
            del keywords[name]
        with torch._C.DisableTorchFunction():
            result = function(*positional, **keywords)
            taken = {tensor.untyped_storage().data_ptr() for tensor in tensors_in([*positional, *keywords.values()])}
            if outs or not any(is_new):
                return result
            if not isinstance(result, tuple):
                return _own(result, taken)
            return tuple(_own(item, taken) if new else item for item, new in zip(result, is_new, strict=True))

    return call


def _own(result: Any, taken: set[int]) -> Any:
    """Return a result in memory of its own, as an operator of a device gives it."""
    if isinstance(result, (list, tuple)):
        return [_own(item, taken) for item in result]
    if not isinstance(result, Tensor):
        return result
    storage = result.untyped_storage()
    if storage.data_ptr() in taken or storage.nbytes() != result.nbytes or not result.is_contiguous():
        result = result.clone(memory_format=torch.contiguous_format)
        storage = result.untyped_storage()
    if result.numel():
        taken.add(storage.data_ptr())
    return result


def shapes(implementation: Implementation) -> Callable[..., Any]:
    """Return the kernel on meta tensors."""
    schema = implementation.schema
    outs = {a.name for a in schema.parsed.arguments if a.kwarg_only and a.name in schema.written}
    function = implementation.meta or implementation.function
    is_new = _is_new(schema)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        positional, keywords = arguments(schema, args, kwargs)
        targets = [value for name, value in keywords.items() if name in outs]
        if not implementation.reads_out:
            keywords = {name: value for name, value in keywords.items() if name not in outs}
        result = function(*positional, **keywords)
        if not outs:
            if not isinstance(result, tuple):
                return _fresh(result) if all(is_new) else result
            return tuple(_fresh(item) if new else item for item, new in zip(result, is_new, strict=True))
        for target, item in zip(targets, gradients.flat_results(result), strict=True):
            target.resize_(item.shape)
        return targets[0] if len(targets) == 1 else tuple(targets)

    return kernel


def _fresh(result: Any) -> Any:
    """Return meta results with the strides of real ones, which share memory with nothing."""
    if isinstance(result, (list, tuple)):
        return [_fresh(item) for item in result]
    if not isinstance(result, Tensor):
        return result
    return torch.empty(result.shape, dtype=result.dtype, device=result.device)


def _is_new(schema: Schema) -> list[bool]:
    """Return which results are no arguments."""
    return [item.alias_info is None or not item.alias_info.before_set for item in schema.parsed.returns]


def _kernel(plan: Plan, schema: Schema) -> Callable[..., Any]:
    if plan.form == "out":
        return writing_out(plan, schema)
    kernel = register.make_kernel(plan)
    assert kernel is not None, f"{plan} is neither a view nor composed, so it has a kernel"
    return _counting(kernel, schema) if schema.written else kernel


def _counting(kernel: Callable[..., Any], schema: Schema) -> Callable[..., Any]:
    """Return the kernel of an operator that writes arguments, which tells autograd that they have changed."""
    names = [argument.name for argument in schema.parsed.arguments]
    positions = [names.index(name) for name in schema.written]

    def call(*args: Any, **kwargs: Any) -> Any:
        result = kernel(*args, **kwargs)
        found = [args[position] if position < len(args) else kwargs[names[position]] for position in positions]
        changed(tensors_in(found))
        return result

    return call


def changed(tensors: Any) -> None:
    """Raise the version of these tensors, which saved values check."""
    torch.autograd.graph.increment_version([tensor for tensor in tensors if not tensor.is_inference()])


def writing_out(plan: Plan, schema: Schema) -> Callable[..., Any]:
    """Return the kernel of an `out` overload: the results are computed, then written where they are wanted."""
    outs = [a.name for a in schema.parsed.arguments if a.kwarg_only and a.name in schema.written]

    def general(args: Sequence[Any], kwargs: Any, _index: int = 0) -> Any:
        cpu, keywords = unwrap(plan, args, kwargs)
        result = plan.call(CPU_KEYS, *cpu, **keywords)
        targets = [kwargs[name] for name in outs]
        for target, item in zip(targets, gradients.flat_results(result), strict=True):
            _write(target, item)
        changed(targets)
        return targets[0] if len(targets) == 1 else tuple(targets)

    return careful(plan, general)


def _write(target: Tensor, result: Tensor) -> None:
    """Give the npu tensor `target` the value of a CPU tensor; another shape takes new memory."""
    if target.shape == result.shape:
        to_cpu(target).copy_(result)
    else:
        repoint(target, result.to(target.dtype, copy=True), index_of(target))
