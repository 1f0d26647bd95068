"""`init_process_group("nccl")`: the emulated accelerator's collectives under NCCL's name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from jumar.device.cuda_stand_in.names import presented_as, to_npu

_OWN_BACKEND = "hccl"
"""The backend of the emulated accelerator."""


def to_own(backend: Any) -> Any:
    """Return a backend string with `nccl` and `cuda` replaced: `cpu:gloo,cuda:nccl`, `nccl`."""
    if not isinstance(backend, str):
        return backend
    return ",".join(":".join(_own_word(word) for word in pair.split(":")) for pair in backend.split(","))


def _own_word(word: str) -> str:
    return {"nccl": _OWN_BACKEND, "cuda": "npu"}.get(word.lower(), word)


def _start(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> None:
        original(to_own(backend), *args, **kwargs)

    return init_process_group


def _bind(original: Callable[..., Any]) -> Callable[..., Any]:
    """Bind a group to the emulator's device. PyTorch has compared the script's own with the accelerator by then."""

    @functools.wraps(original)
    def new_process_group(*args: Any, device_id: Any = None, **kwargs: Any) -> Any:
        return original(*args, device_id=to_npu(device_id), **kwargs)

    return new_process_group


def _configure(core: Any) -> Callable[..., None]:
    """Return a configuration whose devices and backends are the emulator's: also those that PyTorch chooses itself."""
    original = core.BackendConfig.__init__

    @functools.wraps(original)
    def __init__(self: Any, backend: Any) -> None:
        original(self, to_own(str(backend)))
        chosen = self.device_backend_map.items()
        self.device_backend_map = {_own_word(kind): core.Backend(_own_word(name)) for kind, name in chosen}

    return __init__


def _new_group(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def new_group(ranks: Any = None, timeout: Any = None, backend: Any = None, *args: Any, **kwargs: Any) -> Any:
        return original(ranks, timeout, to_own(backend), *args, **kwargs)

    return new_group


def _get_backend(original: Callable[..., str]) -> Callable[..., str]:
    @functools.wraps(original)
    def get_backend(group: Any = None) -> str:
        found = original(group)
        return "nccl" if found == _OWN_BACKEND else found

    return get_backend


def install() -> None:
    """Redirect process groups for NCCL."""
    if not dist.is_available():
        return
    core: Any = torch.distributed.distributed_c10d
    made: dict[str, Any] = {
        "init_process_group": _start(core.init_process_group),
        "new_group": _new_group(core.new_group),
        "get_backend": _get_backend(core.get_backend),
        "is_nccl_available": presented_as(lambda: True, core.is_nccl_available),
    }
    core.BackendConfig.__init__ = _configure(core)
    core._new_process_group_helper = _bind(core._new_process_group_helper)
    for name, function in made.items():
        setattr(core, name, function)
        setattr(dist, name, function)
