"""`Profile`: the rows of a profile before any file is written, of numbers, text and lists that JSON can hold."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

RAW_FILE = "estimated_timeline.json.gz"
"""Under FRAMEWORK: what the offline `analyse` reads."""


class HostRow(NamedTuple):
    """Something on the host. Times in nanoseconds of the estimated timeline, from its start."""

    name: str
    kind: str
    """`cpu_op`, `user_annotation`, `python_function`, `gc`."""
    thread: int
    start_ns: int
    end_ns: int
    sequence: int
    """Of the autograd node, -1 for none."""
    forward_thread: int
    shapes: str
    """`2,3;4`, empty unless shapes were recorded."""
    dtypes: str
    stack: str
    operator: int
    """Number of the device operator this is the host's call of, -1 for none."""
    flops: int = 0


class KernelRow(NamedTuple):
    """A kernel or copy on the device."""

    operator: int
    name: str
    type: str
    core: str
    start_ns: int
    end_ns: int
    wait_ns: int
    stream: int
    task: int
    device: int
    step: str
    blocks: int
    is_dynamic: bool
    is_hf32: bool
    input_shapes: str
    input_dtypes: str
    input_formats: str
    output_shapes: str
    output_dtypes: str
    output_formats: str
    cube_ns: int
    vector_ns: int
    scalar_ns: int
    memory_ns: int
    read_share: float
    """What of the memory's time is reading."""
    num_bytes: int
    is_communication: bool
    api: str
    """The host function that launched it: `aclnnAdd`."""
    launch_ns: int
    """When the host had issued it."""
    role: str


class MemoryRow(NamedTuple):
    """The life of one result's memory; times as in `HostRow`, -1 where it still lives."""

    name: str
    size_bytes: int
    start_ns: int
    end_ns: int
    start_allocated: int
    start_reserved: int
    end_allocated: int
    end_reserved: int
    device: int


class MarkRow(NamedTuple):
    """An mstx mark or range."""

    message: str
    domain: str
    thread: int
    start_ns: int
    end_ns: int
    on_device: bool


class StepRow(NamedTuple):
    """A step: on the host from `start_ns` to `host_end_ns`, on the device until `end_ns`."""

    step: str
    start_ns: int
    host_end_ns: int
    end_ns: int


_ROWS: dict[str, Any] = {"host": HostRow, "kernels": KernelRow, "memory": MemoryRow, "marks": MarkRow, "steps": StepRow}


@dataclass(slots=True)
class Profile:
    """One finished collection."""

    epoch_ns: int
    """The wall clock's time at the start of the timeline."""
    soc: str
    level: str
    metrics: str
    has_host: bool
    has_device: bool
    has_memory: bool
    is_first_generation: bool
    """The chip's counters are those of coupled cube and vector units."""
    assumed: list[str] = field(default_factory=list)
    host: list[HostRow] = field(default_factory=list)
    kernels: list[KernelRow] = field(default_factory=list)
    memory: list[MemoryRow] = field(default_factory=list)
    marks: list[MarkRow] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)

    def save(self, folder: Path) -> None:
        """Write the raw file into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        with gzip.open(folder / RAW_FILE, "wt", encoding="utf-8", compresslevel=3) as file:
            json.dump(_plain(self), file)

    @classmethod
    def load(cls, folder: Path) -> Profile:
        """Read the raw file of `folder`. Raises OSError or ValueError when it is not there or not whole."""
        with gzip.open(folder / RAW_FILE, "rt", encoding="utf-8") as file:
            raw: dict[str, Any] = json.load(file)
        for name, row in _ROWS.items():
            raw[name] = [row(*values) for values in raw[name]]
        return cls(**raw)


def _plain(profile: Profile) -> dict[str, Any]:
    values = {name: getattr(profile, name) for name in Profile.__dataclass_fields__}
    return {name: [list(row) for row in value] if name in _ROWS else value for name, value in values.items()}
