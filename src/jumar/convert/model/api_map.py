"""The counterpart on the NPU of each name of `torch.cuda`, from the packaged table of torch_npu 2.13."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

Kind = Literal["same", "renamed", "moved", "missing"]

_MOVED = {"OutOfMemoryError": "torch.OutOfMemoryError", "AcceleratorError": "torch.AcceleratorError"}
"""torch.cuda names that PyTorch itself keeps under a device-neutral name, too (the same object)."""

_DOCUMENTED = {"default_generators"}
"""Names torch_npu documents but leaves out of its public schema (migration manual of torch_npu)."""

_NVTX = {name: name for name in ("range_push", "range_pop", "range_start", "range_end", "mark")} | {
    "range": "mstx_range"
}

_HINTS = {
    "cudart": "There is no counterpart: torch.npu.npurt() is another interface; remove the call.",
    "nccl": "Use torch.distributed with the hccl backend; there is no torch.npu.nccl.",
    "comm": "Use torch.distributed collectives instead of torch.cuda.comm.",
    "nvtx": "Use torch.npu.mstx: its range_push, range_pop, range_start, range_end and mark take the same message.",
    "profiler": "Use torch_npu.profiler; torch.cuda.profiler starts and stops NVIDIA's tools.",
    "get_arch_list": "NPUs have no CUDA architectures; ask torch.npu.get_device_name() instead.",
    "get_gencode_flags": "NPUs have no CUDA architectures; remove the call.",
    "is_tf32_supported": "NPUs have no TF32; see torch.npu.matmul.allow_hf32.",
    "list_gpu_processes": "Call npu-smi instead.",
    "memory_usage": "Call npu-smi instead.",
    "temperature": "Call npu-smi instead.",
    "power_draw": "Call npu-smi instead.",
    "clock_rate": "Call npu-smi instead.",
    "device_memory_used": "Use torch.npu.mem_get_info().",
    "jiterator": "Write the operator with PyTorch operators or in Ascend C.",
    "tunable": "Tuning on the NPU is done by AOE (torch.npu.set_aoe).",
    "check_error": "Errors of the NPU runtime are raised by torch_npu itself; remove the call.",
}


@dataclass(frozen=True, slots=True)
class Counterpart:
    """What replaces a `torch.cuda` name: `name` is fully qualified, None when there is nothing."""

    kind: Kind
    name: str | None
    hint: str = ""


@cache
def packaged(name: str) -> dict[str, Any]:
    """Return a table of `convert/model/data` by the name of its file, without the ending."""
    data: dict[str, Any] = json.loads((Path(__file__).parent / "data" / f"{name}.json").read_text("utf-8"))
    return data


def table() -> dict[str, Any]:
    """Return the table of torch_npu's names."""
    return packaged("torch_npu_names")


@lru_cache(maxsize=1)
def _npu_names() -> dict[str, str | None]:
    return {row["cuda"]: row["npu"] for row in table()["names"]}


@lru_cache(maxsize=1)
def _submodules() -> dict[str, frozenset[str]]:
    return {name: frozenset(members) for name, members in table()["npu_submodules"].items()}


def counterpart(name: str) -> Counterpart:
    """Return what stands for `name`, a qualified name that is `torch.cuda` or starts with `torch.cuda.`."""
    parts = name.split(".")[2:]
    if not parts:
        return Counterpart("same", "torch.npu")
    head, rest = parts[0], parts[1:]
    tail = "".join(f".{part}" for part in rest)
    if head in _MOVED or head == "amp":
        return Counterpart("moved", _MOVED.get(head, "torch.amp") + tail)
    npu = head if head in _DOCUMENTED else _npu_names().get(head)
    if npu is None or head == "nvtx":
        similar = f"torch.npu.mstx.{_NVTX[rest[0]]}" if head == "nvtx" and rest and rest[0] in _NVTX else None
        return Counterpart("missing", similar, _HINTS.get(head, f"torch_npu {table()['torch_npu']} has no such name."))
    if rest and head in _submodules() and rest[0] not in _submodules()[head]:
        return Counterpart("missing", None, f"torch.npu.{npu} of torch_npu {table()['torch_npu']} has no {rest[0]}.")
    return Counterpart("same" if npu == head else "renamed", f"torch.npu.{npu}{tail}")


def renamed_parameters(name: str) -> dict[str, str]:
    """Return keyword names that differ on the NPU side of a `torch.cuda` function: old to new."""
    return dict(table()["renamed_parameters"].get(name, []))


def missing_parameters(name: str) -> frozenset[str]:
    """Return keyword names of a `torch.cuda` function that its NPU counterpart does not take."""
    return frozenset(table()["missing_parameters"].get(name, []))
