"""The backward of custom operators: an autograd node that calls one operator of the device.

That operator, `torch.ops.npu_backward.<name>`, takes the gradients of the results, which arguments need one
and the arguments themselves, and differentiates the implementation on the CPU. It is an operator so that
compilers can trace it, and so that a backward is one event, under the vendor's name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from jumar.npu.core.overloads import overload_of, tensors_in
from jumar.npu.core.versions.kernels import any_requires_grad
from jumar.npu.ops.mechanism.implement import DERIVATIVES, READING_RESULTS, Implementation, Step, arguments

Tensor = torch.Tensor
NAMESPACE = "npu_backward"

_AUTOGRAD = torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradCPU) | torch._C.DispatchKeySet(
    torch._C.DispatchKey.ADInplaceOrView
)


@contextlib.contextmanager
def autograd() -> Iterator[None]:
    """Record within the block, although kernels run below autograd."""
    excluded = torch._C._dispatch_tls_local_exclude_set() - _AUTOGRAD
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded), torch.enable_grad():
        yield


def differentiate(
    function: Callable[..., Any], inputs: Sequence[Tensor | None], seeds: Sequence[Tensor | None]
) -> list[Any]:
    """Return the gradients of `function(*inputs)` for the gradients `seeds` of its results; None for a None.

    A seed of None is a result without a gradient; an input that no result depends on gets zeros. On meta
    tensors only their shapes are computed.
    """
    if any(tensor is not None and tensor.is_meta for tensor in inputs):
        return [None if tensor is None else torch.empty_like(tensor) for tensor in inputs]
    with autograd():
        leaves = [None if tensor is None else tensor.detach().requires_grad_() for tensor in inputs]
        results = flat_results(function(*leaves))
        found = iter(_pulled(results, seeds, [leaf for leaf in leaves if leaf is not None]))
    return [None if leaf is None else next(found) for leaf in leaves]


def _pulled(results: Sequence[Any], seeds: Sequence[Tensor | None], wanted: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradients of `wanted` for the gradients `seeds` of the results; zeros where none depends on one."""
    flowing = [
        (result, seed)
        for result, seed in zip(results, seeds, strict=False)
        if seed is not None and isinstance(result, Tensor) and result.requires_grad
    ]
    if not flowing:
        return [torch.zeros_like(leaf) for leaf in wanted]
    values, given = zip(*flowing, strict=True)
    found = torch.autograd.grad(values, wanted, given, allow_unused=True, materialize_grads=True)
    return [gradient.contiguous() for gradient in found]


def gradient(function: Callable[[Tensor], Any], x: Tensor, seed: Tensor) -> Tensor:
    """Return the gradient of `function(x)`, whose only result has the gradient `seed`."""
    found: Tensor = differentiate(function, [x], [seed])[0]
    return found


def like(*tensors: Tensor | None) -> tuple[Tensor, ...]:
    """Return tensors shaped like these, as a shape function of their gradients; None gives an empty one."""
    return tuple(torch.empty(0) if tensor is None else torch.empty_like(tensor) for tensor in tensors)


def backward_schema(implementation: Implementation) -> str:
    """Return the schema of the backward operator."""
    parsed = implementation.schema.parsed
    given = ", ".join(f"{_type(argument)} {argument.name}_" for argument in parsed.arguments)
    return f"{implementation.schema.backward}(Tensor?[] gradients, bool[] needs, {given}) -> Tensor[]"


def _type(argument: Any) -> str:
    """Return an argument's type as schemas write it: the binding prints it in Python's way."""
    text = str(argument.real_type).replace("number", "Scalar")
    for _ in range(2):
        if text.startswith("Optional[") and text.endswith("]"):
            text = text[len("Optional[") : -1] + "?"
        if text.startswith("List[") and (text.endswith(("]", "]?"))):
            inner, _, rest = text[len("List[") :].rpartition("]")
            text = (f"{inner[len('Optional[') : -1]}?" if inner.startswith("Optional[") else inner) + "[]" + rest
    return text


def replaced(values: Sequence[Any], tensors: Iterator[Tensor]) -> list[Any]:
    """Return the arguments with their tensors replaced, in order, by other ones."""
    found: list[Any] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(next(tensors))
        elif isinstance(value, (list, tuple)):
            found.append([next(tensors) if isinstance(item, Tensor) else item for item in value])
        else:
            found.append(value)
    return found


def flat_results(result: Any) -> list[Any]:
    """Return what an operator returned as one list, a list of tensors spread out."""
    items = result if isinstance(result, tuple) else (result,)
    found: list[Any] = []
    for item in items:
        found.extend(item if isinstance(item, list) else [item])
    return found


def vector_jacobian(implementation: Implementation) -> Callable[..., Any]:
    """Return the backward operator as a function of CPU tensors."""
    keyword_only = [argument.name for argument in implementation.schema.parsed.arguments if argument.kwarg_only]

    def call(_keys: Any, gradients: Sequence[Tensor | None], needs: Sequence[bool], *args: Any) -> list[Tensor]:
        with autograd(), torch._C.DisableTorchFunction():
            pairs = zip(tensors_in(args), needs, strict=True)
            leaves = [tensor.detach().requires_grad_(need) for tensor, need in pairs]
            full = replaced(args, iter(leaves))
            split = len(full) - len(keyword_only)
            result = implementation.function(*full[:split], **dict(zip(keyword_only, full[split:], strict=True)))
            return _pulled(flat_results(result), gradients, [leaf for leaf in leaves if leaf.requires_grad])

    return call


def backward_shapes(_gradients: Any, needs: Sequence[bool], *args: Any) -> list[Tensor]:
    """Shape function of every backward operator: gradients are contiguous and shaped like their arguments."""
    tensors = zip(tensors_in(args), needs, strict=True)
    return [torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device) for tensor, need in tensors if need]


class _Call:
    """One call that is being recorded: the operator, its arguments without tensors, and how to run it."""

    def __init__(self, implementation: Implementation, args: Sequence[Any], run: Callable[[], Any]) -> None:
        self.implementation = implementation
        self.args = args
        self.run = run
        self.num_tensors = 0
        self.results: list[Any] = []
        self.single = True
        self.pack: list[Any] = []


class Node(torch.autograd.Function):
    """The autograd node of every custom operator."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: Tensor) -> tuple[Any, ...]:
        """Run the operator below autograd."""
        result = call.run()
        call.pack = [len(item) if isinstance(item, list) else None for item in _items(result)]
        call.single = not isinstance(result, tuple)
        found = flat_results(result)
        kept = call.implementation.outputs
        ctx.mark_non_differentiable(
            *(
                value
                for position, value in enumerate(found)
                if isinstance(value, Tensor)
                and (not value.is_floating_point() or (kept is not None and position not in kept))
            )
        )
        ctx.set_materialize_grads(False)
        ctx.call = call
        call.num_tensors = len(tensors)
        saved = list(tensors)
        if call.implementation.schema.name in READING_RESULTS:
            saved += [value for value in found if isinstance(value, Tensor)]
            call.results = [None if isinstance(value, Tensor) else value for value in found]
        ctx.save_for_backward(*saved)
        call.args = replaced(call.args, iter([torch.empty(0, device="meta")] * len(tensors)))
        return tuple(found)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Any, ...]:
        """Call the backward operator."""
        call: _Call = ctx.call
        saved = ctx.saved_tensors
        args = replaced(call.args, iter(saved[: call.num_tensors]))
        needs = list(ctx.needs_input_grad[1:])
        formula = DERIVATIVES.get(call.implementation.schema.name)
        if formula is None:
            operator = overload_of(f"{NAMESPACE}::{call.implementation.schema.backward}")
            found = iter(operator(list(gradients), needs, *args))
            return (None, *(next(found) if need else None for need in needs))
        results = iter(saved[call.num_tensors :])
        names = [argument.name for argument in call.implementation.schema.parsed.arguments]
        by_name = dict(zip(names, args, strict=True))
        owners = [name for name, value in by_name.items() for _ in tensors_in([value])]
        needed = frozenset(name for name, need in zip(owners, needs, strict=True) if need)
        step = Step(by_name, [next(results) if value is None else value for value in call.results], gradients, needed)
        given = formula(step)
        return None, *_spread(by_name, given)


def _items(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def _spread(by_name: dict[str, Any], given: Any) -> Iterator[Tensor | None]:
    """Yield the gradient of every tensor argument, in order."""
    for name, value in by_name.items():
        if isinstance(value, Tensor):
            yield given.get(name)
        elif isinstance(value, (list, tuple)):
            num = sum(isinstance(item, Tensor) for item in value)
            yield from given.get(name) or [None] * num


def recording(implementation: Implementation, operator: Any) -> Callable[..., Any]:
    """Return the kernel on the autograd key."""
    schema = implementation.schema

    def kernel(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        def run() -> Any:
            with torch._C._AutoDispatchBelowAutograd():
                return operator.redispatch(keyset & torch._C._after_autograd_keyset, *args, **kwargs)

        if not torch.is_grad_enabled() or not any_requires_grad(args, kwargs):
            return run()
        positional, keywords = arguments(schema, args, kwargs)
        call = _Call(implementation, [*positional, *keywords.values()], run)
        found = iter(Node.apply(call, *tensors_in(call.args)))  # type: ignore[no-untyped-call]
        packed = [next(found) if num is None else [next(found) for _ in range(num)] for num in call.pack]
        return packed[0] if call.single else tuple(packed)

    return kernel
