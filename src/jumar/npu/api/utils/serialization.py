"""`torch_npu.utils.serialization`: `torch.load`, saving beside the run, and old checkpoints made on an NPU."""

from __future__ import annotations

import io
import os
import pickle
import threading
from pathlib import Path
from typing import IO, Any

import torch

__all__ = ["load", "save_async"]

FileLike = str | os.PathLike[str] | IO[bytes]


def load(
    f: FileLike,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Do what `torch.load` does: checkpoints of npu tensors come back on the npu, unless mapped elsewhere."""
    return torch.load(f, map_location, pickle_module, weights_only=weights_only, mmap=mmap, **pickle_load_args)


def save_async(
    obj: object,
    f: FileLike,
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
    model: torch.nn.Module | None = None,  # noqa: ARG001 (the vendor lets its backward wait for the copy)
) -> None:
    """Save in a thread of its own what `obj` is at this call. Raises RuntimeError for the old file format.

    The values are taken before this returns, so that training may go on at once; only the file is written later.
    """
    if not _use_new_zipfile_serialization:
        raise RuntimeError(
            'torch_npu.save_async needs "_use_new_zipfile_serialization = True"; move tensors to the CPU to save '
            "them in the old format."
        )
    contents = io.BytesIO()
    torch.save(obj, contents, pickle_module, pickle_protocol, _disable_byteorder_record=_disable_byteorder_record)
    threading.Thread(target=_write, args=(f, contents)).start()


def _write(f: FileLike, contents: io.BytesIO) -> None:
    if isinstance(f, (str, os.PathLike)):
        Path(f).write_bytes(contents.getbuffer())
    else:
        f.write(contents.getbuffer())


def _rebuild_npu_tensor(
    storage: Any,
    storage_offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool,
    backward_hooks: Any,
    _npu_storage_info: Any,
) -> torch.Tensor:
    """Return a tensor of a checkpoint that torch_npu before 2.1 wrote: on the npu, in the base format."""
    rebuild: Any = torch._utils._rebuild_tensor
    tensor: torch.Tensor = rebuild(storage, storage_offset, size, stride)
    tensor = tensor.to("npu").requires_grad_(requires_grad)
    tensor._backward_hooks = backward_hooks
    return tensor
