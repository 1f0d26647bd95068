"""`from torch_npu.contrib import transfer_to_npu`: run a CUDA script on the npu by renaming while it runs.

Like the vendor's module of that name, importing it points `torch.cuda` at `torch.npu` and `torch.profiler` at
`torch_npu.profiler`, makes `.cuda()` move to the npu, and replaces `cuda` and `nccl` in the arguments of the
functions that the vendor names. `torch.device("cuda")` stays what it is until one of them takes it: as with the
vendor's, comparing it with a tensor's device, which reports `npu`, is false. `torch.jit.script` is off, with the
vendor's warning. Not there: Triton's part, and the switches for other libraries.
"""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.autograd import profiler_util
from torch.utils import _device, cpp_extension

from jumar.npu.dispatch.multiple import factories, factory_methods

_DEVICES = ("device", "device_type", "map_location", "device_id")
"""Keywords that hold a device."""


def renamed(value: Any) -> Any:
    """Return a device, or a mapping of devices, with npu devices for cuda ones; anything else as it is."""
    if isinstance(value, str):
        return "npu" + value[4:] if value == "cuda" or value.startswith("cuda:") else value
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("npu") if value.index is None else torch.device("npu", value.index)
    if isinstance(value, dict):
        return {renamed(key): renamed(item) for key, item in value.items()}
    return value


def renaming(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with cuda devices renamed: positional ones, in the keywords of devices, in `device_ids`."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name in _DEVICES:
            if name in kwargs:
                kwargs[name] = renamed(kwargs[name])
        listed = kwargs.get("device_ids")
        if isinstance(listed, (list, tuple)):
            kwargs["device_ids"] = type(listed)(map(renamed, listed))
        return function(*map(renamed, args), **kwargs)

    return call


def _renamed_backend(value: Any) -> Any:
    """Return the name of a backend, `nccl` or `cpu:gloo,cuda:nccl`, with those of the npu."""
    return value.replace("nccl", "hccl").replace("cuda", "npu") if isinstance(value, str) else value


def renaming_backend(function: Callable[..., Any], position: int = 0) -> Callable[..., Any]:
    """Return the function with the backend renamed that it takes at this position or as `backend`."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        if len(given) > position:
            given[position] = _renamed_backend(given[position])
        if "backend" in kwargs:
            kwargs["backend"] = _renamed_backend(kwargs["backend"])
        return function(*given, **kwargs)

    return renaming(call)


class _Proxy(type):
    """The class of a class that stands before PyTorch's own, whose objects stay instances."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or isinstance(instance, cls.__mro__[1])


def proxy(real: Any) -> Any:
    """Return a class to put in place of `torch.Generator` or `torch.Event`, which takes cuda devices."""

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return real.__new__(cls, *map(renamed, args), **{name: renamed(value) for name, value in kwargs.items()})

    meta: Any = type("_Proxy", (_Proxy, type(real)), {})
    return meta(real.__name__, (real,), {"__new__": new, "__doc__": real.__doc__, "__module__": real.__module__})


_installed: list[bool] = []
_log = logging.getLogger("torch_npu.contrib.transfer_to_npu")

_MORE_FUNCTIONS = (
    *("frombuffer", "_pin_memory", "load", "set_default_device", "get_device_module"),
    *(f"sparse_{kind}_tensor" for kind in ("coo", "csr", "compressed")),
    *("_sparse_coo_tensor_unsafe", "_sparse_csr_tensor_unsafe"),
)
"""Functions beside the factories whose devices are renamed."""
_OF_CUDA = (
    *("get_device_properties", "get_device_name", "get_device_capability", "set_device", "synchronize"),
    *("mem_get_info", "memory_stats", "memory_summary", "memory_allocated", "max_memory_allocated"),
    *("reset_max_memory_allocated", "memory_reserved", "max_memory_reserved", "reset_max_memory_cached"),
    *("reset_peak_memory_stats", "default_stream", "can_device_access_peer", "current_stream", "utilization"),
    *("set_per_process_memory_fraction", "caching_allocator_alloc", "list_gpu_processes"),
)
_OF_CUDA_MEMORY = ("_record_memory_history", "_snapshot", "_dump_snapshot")
_SUBMODULES = ("amp", "amp.autocast_mode", "amp.common", "amp.grad_scaler", "memory", "random")
_OF_PROFILER = ("profile", "schedule", "tensorboard_trace_handler", "ProfilerAction")


def _wrap(owner: Any, *names: str) -> None:
    for name in names:
        if hasattr(owner, name):
            setattr(owner, name, renaming(getattr(owner, name)))


def _wrap_init(*classes: Any) -> None:
    for owner in classes:
        owner.__init__ = renaming(owner.__init__)


def _copy(source: Any, target: Any) -> None:
    """Put every public name of a module of the npu into the one of torch.cuda."""
    for name in dir(source):
        if not name.startswith("__") and name not in ("annotations", "Any", *_SUBMODULES):
            setattr(target, name, getattr(source, name))


def _attribute(module: Any, path: str) -> Any:
    return functools.reduce(lambda owner, name: getattr(owner, name, None), path.split("."), module)


def _cuda(pytorch: Any) -> None:
    for path in _SUBMODULES:  # first: the submodules of torch.cuda have their own names for what is in it too
        source, target = _attribute(pytorch.npu, path), _attribute(pytorch.cuda, path)
        if source is not None and target is not None:
            _copy(source, target)
    _copy(pytorch.npu, pytorch.cuda)
    for name in ("autocast_mode", "common", "grad_scaler"):
        setattr(pytorch.cuda.amp, name, getattr(pytorch.npu.amp, name))
    _wrap(pytorch.cuda, *_OF_CUDA)
    _wrap(pytorch.cuda.memory, *_OF_CUDA_MEMORY)
    pytorch.cuda.device.__init__ = renaming(pytorch.cuda.device.__init__)
    pytorch.cuda.CUDAGraph = pytorch.npu.NPUGraph
    pytorch.cuda.DoubleTensor = pytorch.npu.FloatTensor
    pytorch.cuda.default_generators = pytorch.npu.default_generators


def _tensors(pytorch: Any) -> None:
    _device._device_constructors()  # kept by PyTorch: a default device is for these, not for wrappers
    _wrap(pytorch, *(name for name in factories() if name != "asarray"), *_MORE_FUNCTIONS)
    _wrap(pytorch.fft, "fftfreq", "rfftfreq")
    _wrap(pytorch.Tensor, *factory_methods(), "to", "pin_memory")
    _wrap(pytorch.nn.Module, "to", "to_empty")
    _wrap(cpp_extension, "include_paths")
    kernel: Any = profiler_util.Kernel
    kernel.__new__ = renaming(kernel.__new__)  # a named tuple
    _wrap_init(_device.DeviceContext, pytorch.amp.autocast_mode.autocast, pytorch.amp.GradScaler)
    pytorch.UntypedStorage.__new__ = renaming(pytorch.UntypedStorage.__new__)
    pytorch.Generator, pytorch.Event = proxy(pytorch.Generator), proxy(pytorch.Event)
    pytorch.Tensor.cuda, pytorch.nn.Module.cuda = renaming(pytorch.Tensor.npu), renaming(pytorch.nn.Module.npu)
    pytorch.Tensor.is_cuda = property(lambda self: self.device.type == "npu")
    pytorch.storage.TypedStorage.is_cuda = property(lambda self: self.device.type == "npu")


def _distributed(pytorch: Any) -> None:
    parts = pytorch.distributed
    if not parts.is_available():
        return
    from torch.distributed import device_mesh, distributed_c10d, fsdp

    parts.init_process_group = renaming_backend(parts.init_process_group)
    distributed_c10d._new_group_with_tag = renaming_backend(distributed_c10d._new_group_with_tag, position=2)
    parts.is_nccl_available = distributed_c10d.is_nccl_available = lambda: True
    parts.Backend.default_device_backend_map.pop("cuda", None)
    parts.ProcessGroup._get_backend = renaming(parts.ProcessGroup._get_backend)
    _wrap(device_mesh, "init_device_mesh")
    parts.init_device_mesh = device_mesh.init_device_mesh
    _wrap_init(fsdp.FullyShardedDataParallel, device_mesh.DeviceMesh, pytorch.nn.parallel.DistributedDataParallel)


def _profiler(pytorch: Any) -> None:
    import torch_npu  # type: ignore[import-not-found,unused-ignore]  # the emulated one

    for name in _OF_PROFILER:
        setattr(pytorch.profiler, name, getattr(torch_npu.profiler, name))
    own, others = torch_npu.profiler.ProfilerActivity, pytorch.profiler.ProfilerActivity
    pytorch.profiler.profile = _profile(torch_npu.profiler, {others.CPU: own.CPU, others.CUDA: own.NPU})


def _profile(profiler: Any, activities: Mapping[Any, Any]) -> Callable[..., Any]:
    """Return the npu's profiler, which takes PyTorch's activities and leaves out a configuration made for CUDA."""

    @functools.wraps(profiler.profile)
    def call(*args: Any, **kwargs: Any) -> Any:
        config = kwargs.get("experimental_config")
        if config is not None and not isinstance(config, profiler._ExperimentalConfig):
            del kwargs["experimental_config"]
            _log.warning("experimental_config of torch.profiler.profile is for CUDA only and is left out")
        if kwargs.get("activities") is not None:
            kwargs["activities"] = [activities.get(item, item) for item in kwargs["activities"]]
        return profiler.profile(*args, **kwargs)

    return call


def _script(pytorch: Any) -> None:
    warnings.warn(
        "torch.jit.script and torch.jit.script_method will be disabled by transfer_to_npu, which currently does not "
        "support them. If you need to enable them, please do not use transfer_to_npu.",
        RuntimeWarning,
        stacklevel=2,
    )
    pytorch.jit.script = pytorch.jit.script_method = _as_it_is


def _as_it_is(obj: Any, *_: Any, **__: Any) -> Any:
    return obj


def install() -> None:
    """Rename for the rest of the process; a second call does nothing."""
    if _installed:
        return
    for part in (_cuda, _tensors, _distributed, _profiler, _script):
        part(torch)
    _installed.append(True)
