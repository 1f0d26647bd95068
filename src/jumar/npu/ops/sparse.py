"""Sparse tensors (COO) on the npu: dense indices and values on the device, and what the vendor computes with them.

PyTorch's sparse tensor is a C++ object of its own around two dense tensors, so one on the npu is that object
around two npu tensors. Functions that only handle those parts run as they are; the others run on a CPU
sparse tensor over the same memory. torch_npu has sparse kernels for few operators, and refuses the rest
(`npu_Sparse_fallback` in `VariableFallbackKernel.cpp` of github.com/Ascend/pytorch); with the policy
`fallback` the emulator computes those too. Tensors compressed by row or column stay on the CPU.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from jumar.npu.core import events
from jumar.npu.core.plans import Plan
from jumar.npu.core.scalars import tensor_of
from jumar.npu.core.state import STATE
from jumar.npu.core.versions.kernels import get_kernel
from jumar.npu.dispatch import arguments
from jumar.npu.memory.memory import index_of
from jumar.soc.support.data import table

Tensor = torch.Tensor

_KEYS = torch._C.DispatchKeySet(torch._C.DispatchKey.SparseCPU)
_has = torch._C._dispatch_has_kernel_for_dispatch_key

PARTS = (
    "_sparse_coo_tensor_with_dims",
    "_sparse_coo_tensor_with_dims_and_tensors",
    "_indices",
    "_values",
    "indices",
    "values",
    "_nnz",
    "_dimI",
    "_dimV",
    "sparse_dim",
    "dense_dim",
    "is_coalesced",
    "_coalesced_",
    "copy_",
    "copy_sparse_to_sparse_",
    "clone",
    "empty.memory_format",
    "sparse_resize_",
    "sparse_resize_and_clear_",
    "zero_",
)
"""Functions of the sparse object itself.

The list is a judgement: the schemas and tags of PyTorch do not tell a function that handles the two parts of a sparse
tensor from one that computes with their values.
"""


def wrap(result: Tensor, index: int) -> Tensor:
    """Return a CPU sparse tensor's value as a sparse tensor on the npu."""
    indices, values = (arguments.wrap(part.clone(), index) for part in (result._indices(), result._values()))
    return _assembled(indices, values, result, torch.device("npu", 0))


def unwrap(tensor: Tensor) -> Tensor:
    """Return a CPU sparse tensor over the parts of a sparse npu tensor."""
    parts = (arguments.alias(_part("_indices")(_KEYS, tensor)), arguments.alias(_part("_values")(_KEYS, tensor)))
    return _assembled(*parts, tensor, torch.device("cpu"))


def _assembled(indices: Tensor, values: Tensor, like: Tensor, device: torch.device) -> Tensor:
    made: Tensor = _part("_sparse_coo_tensor_with_dims_and_tensors")(
        _KEYS,
        like.sparse_dim(),
        like.dense_dim(),
        list(like.shape),
        indices,
        values,
        dtype=values.dtype,
        layout=torch.sparse_coo,
        device=device,
        is_coalesced=like.is_coalesced(),
    )
    return made


@functools.cache
def _computed() -> frozenset[str]:
    """Return the base names of what the vendor has kernels for."""
    return frozenset(table("vendor_kernels")["sparse"].split())


@functools.cache
def _part(name: str) -> Callable[..., Any]:
    call: Callable[..., Any] = get_kernel(f"aten::{name}", "SparseCPU").call_boxed
    return call


def _direct(name: str) -> Callable[..., Any]:
    """Kernel of a function of the sparse object itself."""
    call = _part(name)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return call(_KEYS, *args, **kwargs)

    return kernel


def _fallback(operator: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an operator with a sparse npu tensor among its arguments, or refuse it as the vendor does."""
    name = operator._schema.name.removeprefix("aten::")
    full = operator._schema.name + (f".{operator._overloadname}" if operator._overloadname != "default" else "")
    if name not in _computed() and STATE.settings.unsupported != "fallback":
        raise RuntimeError(f"CAUTION: The operator '{full}' is not currently supported on the NPU backend.")
    if not torch._C._dispatch_has_computed_kernel_for_dispatch_key(full, "SparseCPU"):
        raise NotImplementedError(
            f"Could not run '{full}' with arguments from the 'SparseNPU' backend: neither the emulated NPU nor the "
            "CPU has a sparse kernel for it; use to_dense() first."
        )
    tensors = [item for item in (*args, *kwargs.values()) if isinstance(item, Tensor)]
    index = _index(tensors)
    start_ns = time.perf_counter_ns()
    pairs: list[tuple[Tensor, Tensor]] = []
    numbers = _tensor_positions(full)
    cpu = [
        tensor_of(item) if place in numbers and isinstance(item, (bool, int, float, complex)) else _to_cpu(item, pairs)
        for place, item in enumerate(args)
    ]
    keywords = {key: _to_cpu(item, pairs) for key, item in kwargs.items()}
    result = get_kernel(full, "SparseCPU").call_boxed(_KEYS, *cpu, **keywords)
    found = _from_cpu(result, pairs, index)
    if STATE.listeners:
        events.tell(full, args, kwargs, found, start_ns, index)
    return found


@functools.cache
def _tensor_positions(name: str) -> frozenset[int]:
    """Return which positional arguments are tensors: PyTorch hands a number there to Python as it is."""
    return frozenset(Plan(name).single)


def _index(tensors: list[Tensor]) -> int:
    """Return the logical device of the first npu tensor; a sparse one is where its values are."""
    for tensor in tensors:
        if tensor.device.type == "npu":
            return index_of(_part("_values")(_KEYS, tensor) if tensor.is_sparse else tensor)
    return 0


def _to_cpu(item: Any, pairs: list[tuple[Tensor, Tensor]]) -> Any:
    if isinstance(item, (list, tuple)):
        return [_to_cpu(each, pairs) for each in item]
    if isinstance(item, torch.device):
        return torch.device("cpu") if item.type == "npu" else item
    if not isinstance(item, Tensor) or item.device.type != "npu":
        return item
    cpu = unwrap(item) if item.is_sparse else arguments.alias(item)
    pairs.append((cpu, item))
    return cpu


def _from_cpu(result: Any, pairs: list[tuple[Tensor, Tensor]], index: int) -> Any:
    """Return results on the npu: an argument that was written comes back as it is, with its new value."""
    if isinstance(result, (list, tuple)):
        return type(result)([_from_cpu(each, pairs, index) for each in result])
    if not isinstance(result, Tensor):
        return result
    for cpu, npu in pairs:
        if cpu is result:
            if npu.is_sparse:
                _part("copy_sparse_to_sparse_")(_KEYS, npu, wrap(result, index), False)
                _part("_coalesced_")(_KEYS, npu, result.is_coalesced())
            return npu
    return wrap(result, index) if result.is_sparse else arguments.wrap(result, index)


def _refuse_compressed(operator: Any, *_: Any, **__: Any) -> NoReturn:
    raise NotImplementedError(
        f"the emulated NPU has no tensors compressed by row or column, and so no {operator._schema.name} of them; use "
        "to_sparse() or to_dense() before they go to the device."
    )


def register(aten: Any, fallback: Any) -> None:
    """Register the kernels of sparse npu tensors."""
    for name in PARTS:
        if _has(f"aten::{name}", "SparseCPU"):
            aten.impl(name, "SparsePrivateUse1", _direct(name), False)
    fallback.fallback(_fallback, "SparsePrivateUse1")
    fallback.fallback(_refuse_compressed, "SparseCsrPrivateUse1")
    arguments.LAYOUTS[torch.sparse_coo] = wrap
