"""Parses the names of `.npy` files: of msaccucmp.py, and of dumps of TensorFlow and ONNX."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ASCEND = re.compile(
    r"(?P<type>[^.]+)\.(?P<name>[^.]+)\.(?P<task>\d+)(?:\.(?P<stream>\d+))?\.(?P<time>\d+)"
    r"\.(?P<side>input|output)\.(?P<index>\d+)(?:\.(?P<more>.+))?"
)
"""`{op_type}.{op_name}.{task_id}[.{stream_id}].{timestamp}.{input|output}.{index}[.{format or shape}]`."""

_ORIGINAL = re.compile(r"(?P<name>[^.]+)\.(?P<index>\d+)\.(?P<time>\d{10,})")
"""`{op_name}.{output_index}.{timestamp}`: TensorFlow's and ONNX's side of a comparison."""

_RAW = re.compile(r"(?P<type>[^.]+)\.(?P<name>[^.]+)\.(?P<task>\d+)(?:\.(?P<stream>\d+))?\.(?P<time>\d{13,})")


@dataclass(frozen=True, slots=True)
class NpyName:
    """The parts of a file's name."""

    operator: str
    """Type of the operator; empty where the name has none."""
    name: str
    """Name of the operator in the graph."""
    task: int
    stream: int
    time: int
    """Microseconds."""
    side: str
    index: int

    @property
    def call(self) -> tuple[int, int, int, str, str]:
        """What the tensors of one call share, in the order of the calls."""
        return self.time, self.task, self.stream, self.name, self.operator


def parse(stem: str) -> NpyName | None:
    """Return the parts of a file name without `.npy`, or None when it has neither form."""
    match = _ASCEND.fullmatch(stem)
    if match is not None:
        return NpyName(
            match["type"],
            match["name"],
            int(match["task"]),
            int(match["stream"] or 0),
            int(match["time"]),
            match["side"],
            int(match["index"]),
        )
    match = _ORIGINAL.fullmatch(stem)
    if match is not None:
        return NpyName("", match["name"], 0, 0, int(match["time"]), "output", int(match["index"]))
    return None


def is_raw_dump(name: str) -> bool:
    """Return whether a file has the name of a dump that `msaccucmp.py convert` has not converted."""
    return _RAW.fullmatch(name) is not None


def file_name(name: NpyName) -> str:
    """Return the name of the file, with `.npy`; points, slashes and blanks within operator and name become `_`."""
    operator, plain = (re.sub(r"[./\\:\s]+", "_", text) or "_" for text in (name.operator, name.name))
    return f"{operator}.{plain}.{name.task}.{name.stream}.{name.time}.{name.side}.{name.index}.npy"
