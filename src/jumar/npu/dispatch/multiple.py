"""Changes to PyTorch's Python functions once a device index above 0 is in use (see `devices`)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch
from torch.utils import _device as _default_device

from jumar.npu.core.devices import EXPLICIT_ZERO, index_from
from jumar.npu.memory.memory import INDEX_OF_STORAGE, index_of
from jumar.operators import named

Tensor = torch.Tensor

_plain_device = torch._C.TensorBase.device
_storage_base: Any = torch._C.StorageBase
_plain_storage_device = _storage_base.device
_plain_to, _plain_cpu = torch.Tensor.to, torch.Tensor.cpu
_DEVICES: list[torch.device] = []
"""Filled by `install`: the name `npu` means nothing to PyTorch before the backend is up."""


@functools.cache
def factories() -> tuple[str, ...]:
    """Return the names of the functions of `torch` that make a tensor on the device they are given."""
    found = sorted(name for name in named("factory", "like") if callable(getattr(torch, name, None)))
    return (*found, "tensor", "as_tensor", "asarray")


@functools.cache
def factory_methods() -> tuple[str, ...]:
    """Return the names of the methods of a tensor that make another on the device they are given."""
    found = sorted(name for name in named("factory", "like") if name.startswith("new_") and hasattr(Tensor, name))
    return (*found, "new_tensor")


class _Move(torch.autograd.Function):
    """A copy to another logical device, whose gradient goes back to where the input was."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, target: int | None, how: dict[str, Any]) -> Tensor:
        ctx.source = None if tensor.is_cpu else _device(tensor).index
        return _copy(tensor, target, **how)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _copy(gradient, ctx.source), None, None


def _move(tensor: Tensor, target: int | None, **how: Any) -> Tensor:
    moved: Tensor = _Move.apply(tensor, target, how)  # type: ignore[no-untyped-call]
    return moved


def _copy(tensor: Tensor, target: int | None, **how: Any) -> Tensor:
    where = torch.device("cpu") if target is None else torch.device("npu", target or EXPLICIT_ZERO)
    with torch._C.DisableTorchFunctionSubclass():  # an uninitialized parameter lets nothing but `to` near it
        return torch.ops.aten._to_copy.default(tensor, device=where, **how)  # type: ignore[no-any-return]


def _device(self: Tensor) -> torch.device:
    """The device, with its logical index."""
    plain: torch.device = _plain_device.__get__(self)
    if plain.type != "npu":
        return plain
    if self.is_sparse:
        return _DEVICES[index_of(self._values())]
    if type(self) is not Tensor and hasattr(self, "__tensor_flatten__"):  # a DTensor, for one: its memory is a part's
        names, _ = self.__tensor_flatten__()
        device: torch.device = getattr(self, names[0]).device
        return device
    if not torch._C._has_storage(self):
        return plain
    with torch._C.DisableTorchFunctionSubclass():  # an uninitialized parameter does not show its storage
        return _DEVICES[index_of(self)]


def _get_device(self: Tensor) -> int:
    """The logical index; -1 for the CPU."""
    device = _device(self)
    return -1 if device.index is None else device.index


def _storage_device(self: Any) -> torch.device:
    plain: torch.device = _plain_storage_device.__get__(self)
    return plain if plain.type != "npu" else _DEVICES[INDEX_OF_STORAGE.get(self._cdata, 0)]


def _to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """`Tensor.to` that knows logical devices."""
    wanted = kwargs.get("device", kwargs.get("other", args[0] if args else None))
    dtype = kwargs.get("dtype")
    if isinstance(wanted, Tensor):
        like: Any = wanted
        wanted, dtype = like.device, like.dtype
    if wanted is None or isinstance(wanted, torch.dtype):
        return _plain_to(self, *args, **kwargs)
    device = torch.device(wanted)
    source = self.device.index if self.device.type == "npu" else None
    target = index_from(device) if device.type == "npu" else None
    if (not source and not target and source is target) or device.type not in ("npu", "cpu"):
        return _plain_to(self, *args, **kwargs)
    # NOTE: Module.to gives None for a dtype it does not change, here for a tied weight that has moved already.
    rest = [value for value in args[1:] if value is not None and not isinstance(value, torch.dtype)]
    dtype = next((value for value in args[1:] if isinstance(value, torch.dtype)), dtype)
    if source == target:
        keywords = {key: value for key, value in kwargs.items() if key not in ("device", "other", "dtype")}
        return _plain_to(self, self.dtype if dtype is None else dtype, *rest, **keywords)
    how = {key: value for key, value in kwargs.items() if key in ("non_blocking", "memory_format")}
    if rest and isinstance(rest[0], bool):
        how["non_blocking"] = rest[0]
    if dtype is not None and target is None:  # converted where it is, so that the copy to the host is the last step
        return _move(_plain_to(self, dtype), target, **how)
    moved: Tensor = _move(self, target, **how)
    return moved if dtype is None else _plain_to(moved, dtype)


def _cpu(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """`Tensor.cpu` whose gradient goes back to the right device."""
    if self.device.type == "npu" and self.device.index:
        return _move(self, None)
    return _plain_cpu(self, *args, **kwargs)


def _grouped(tensor_lists: list[list[Tensor | None]], with_indices: bool = False) -> dict[Any, Any]:
    """Group parallel lists by the device and dtype of the first list's tensors, with logical devices.

    The C++ function of this name puts all logical devices into one group, labelled `npu:0`; foreach
    optimizers and gradient clipping then move their scalars there.
    """
    groups: dict[Any, tuple[list[list[Tensor | None]], list[int]]] = {}
    for index, first in enumerate(tensor_lists[0]):
        assert first is not None, "the first list decides the group and holds tensors only"
        lists, indices = groups.setdefault((first.device, first.dtype), ([[] for _ in tensor_lists], []))
        for group, tensors in zip(lists, tensor_lists, strict=True):
            if tensors:  # an optimizer passes empty lists for state that it does not keep
                group.append(tensors[index])
        if with_indices:
            indices.append(index)
    return groups


def _is_tracing() -> bool:
    """Return whether tensors are fake now: PyTorch itself compares their devices, and knows `npu:0` only."""
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None


def _sharing(function: Any) -> Any:
    """Return `as_tensor` or `asarray` that gives a tensor back, or its memory, when it is where it is wanted."""

    @functools.wraps(function)
    def call(data: Any, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is not None and isinstance(data, Tensor) and not _is_tracing():
            wanted = torch.device(device)
            if wanted.type == "npu" == data.device.type and index_from(wanted) == data.device.index:
                del kwargs["device"]
        return function(data, *args, **kwargs)

    return call


def _explicit(function: Any) -> Any:
    """Return a factory that marks an `npu:0` its caller wrote, so that it is not taken for C++'s own 0."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is not None:
            device = torch.device(device)
            if device.type == "npu" and device.index == 0 and not _is_tracing():
                kwargs["device"] = torch.device("npu", EXPLICIT_ZERO)
        return function(*args, **kwargs)

    return call


def _skip_code(bindings: Any) -> Callable[[CodeType], Any]:
    """Return what has TorchDynamo leave a code alone; its name differs between versions of PyTorch."""
    if hasattr(bindings, "skip_code"):
        found: Callable[[CodeType], Any] = bindings.skip_code
        return found
    strategy = bindings._FrameExecStrategy(bindings._FrameAction.SKIP, bindings._FrameAction.DEFAULT)
    return lambda code: bindings.set_code_exec_strategy(code, strategy)


def _leave_to_python(function: Any) -> None:
    """Keep TorchDynamo from compiling the frames of a wrapped function, which code that it makes calls itself.

    As `torch._dynamo.eval_frame.skip_code` does, without importing the compiler.
    """
    bindings: Any = torch._C._dynamo.eval_frame
    skip = _skip_code(bindings)
    while function is not None and hasattr(function, "__code__"):
        skip(function.__code__)
        function = getattr(function, "__wrapped__", None)


def install() -> None:
    """Teach Python's view of tensors the logical devices. Called once, by `devices.use_multiple`."""
    _DEVICES.extend(torch.device("npu", index) for index in range(EXPLICIT_ZERO))
    # NOTE: PyTorch looks its factories up once, for `with torch.device(...)`; it has to find its own, not these.
    _default_device._device_constructors()
    for name in factories():
        setattr(torch, name, _explicit(getattr(torch, name)))
    for name in ("as_tensor", "asarray"):
        setattr(torch, name, _sharing(getattr(torch, name)))
    for name in factory_methods():
        setattr(Tensor, name, _explicit(getattr(Tensor, name)))
    _leave_to_python(torch.as_tensor)
    tensor_class: Any = Tensor
    tensor_class.device = property(_device)
    tensor_class.get_device = _get_device
    tensor_class.to, tensor_class.cpu = _to, _cpu
    bindings: Any = torch._C
    bindings._group_tensors_by_device_and_dtype = _grouped
    storage_class: Any = torch.UntypedStorage
    storage_class.device = property(_storage_device)
