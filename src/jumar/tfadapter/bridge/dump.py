"""`Dumper`: writes the tensors of operators as the vendor's converted dumps have them, and finds overflow.

A file is `PATH/TIME/DEVICE/GRAPH/NUMBER/STEP/TYPE.NAME.TASK.STREAM.STAMP.input.0.npy`: `/` of a name is written `_`.
Overflow is an output with an infinite or undefined number, or the largest of float16, of inputs that are finite
(document on overflow collection). `overflow.json` in a step's folder lists the operators in the order of the graph.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from jumar.base.files import write_atomically, write_text

ATOMIC = frozenset({
    "AddN", "AccumulateNV2", "BiasAddGrad", "Conv2DBackpropFilter", "Conv3DBackpropFilterV2",
    "DepthwiseConv2dNativeBackpropFilter", "ResourceScatterAdd", "ScatterAdd", "ScatterNd", "ScatterNdAdd",
    "SegmentSum",
    "SparseSegmentSum", "SparseSegmentMean", "Sum", "Mean", "TensorScatterAdd", "UnsortedSegmentSum",
})  # fmt: skip
"""Operators whose parts a chip adds up in memory (Atomic Add): sums over a batch, an axis, or indices."""
_LARGEST_HALF = 65504.0


@dataclass(frozen=True)
class Call:
    """One operator of a step: its tensors by position; those that are not known are None."""

    type: str
    name: str
    inputs: Sequence[np.ndarray | None]
    outputs: Sequence[np.ndarray | None]


@dataclass
class Dumper:
    """Writes the dumps of one program."""

    options: Mapping[str, Any]
    """`dump_path`, `enable_dump`, `dump_step`, …, without the prefix `dump_config.`."""
    num_runs: int = 0
    num_seen: int = 0
    """Operators with numbers whose outputs were looked at."""
    found: list[str] = field(default_factory=list)
    """What overflowed, one sentence each."""
    _steps: dict[str, int] = field(default_factory=dict)
    """Graph -> its runs so far."""
    _stamp: str = field(default_factory=lambda: time.strftime("%Y%m%d%H%M%S"))

    @property
    def is_overflow(self) -> bool:
        """Whether overflow is looked for, and not all operators dumped."""
        return bool(self.options.get("enable_dump_debug"))

    def wants(self, step: int) -> bool:
        """Tell whether a step is dumped: `dump_step` is `0|5|10-20`; all without it."""
        text = str(self.options.get("dump_step") or "")
        for part in [one for one in text.split("|") if one]:
            first, _, last = part.partition("-")
            if int(first) <= step <= int(last or first):
                return True
        return not text

    def step(self, calls: Iterable[Call], graph: str = "graph_1") -> None:
        """Write what is asked of the calls of one run of a graph."""
        number = self._steps.get(graph, 0)
        self._steps[graph] = number + 1
        self.num_runs += 1
        if not self.wants(number):
            return
        folder = (
            Path(str(self.options["dump_path"])) / self._stamp / "0" / graph / graph.rpartition("_")[2] / str(number)
        )
        listed = []
        layers = str(self.options.get("dump_layer") or "").split()
        for place, call in enumerate(calls):
            self.num_seen += any(one is not None for one in call.outputs)
            if self.is_overflow:
                mode = self._overflow(call)
                if mode:
                    listed.append({"order": place, "type": call.type, "name": call.name, "mode": mode})
                    self.found.append(f"step {number} of {graph}: {call.type} {call.name} ({mode})")
                    self._write(folder, call, place, ("input", "output"))
            elif not layers or call.name in layers:
                mode = str(self.options.get("dump_mode") or "output")
                self._write(folder, call, place, ("input", "output") if mode == "all" else (mode,))
        if self.is_overflow and listed:
            write_text(folder / "overflow.json", json.dumps({"step": number, "overflow": listed}, indent=1) + "\n")

    def _overflow(self, call: Call) -> str:
        """Return the mode that finds a call's overflow; empty where there is none, or another mode was asked for."""
        known = [one for one in call.inputs if one is not None]
        if not known or not all(map(_is_finite, known)) or all(map(_is_finite, call.outputs)):
            return ""  # one without numbers as inputs only reads what is there: a variable
        mode = "atomic_overflow" if call.type in ATOMIC else "aicore_overflow"
        return mode if str(self.options.get("dump_debug_mode") or "all") in (mode, "all") else ""

    def _write(self, folder: Path, call: Call, place: int, kinds: Sequence[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        stamp = time.time_ns() // 1000
        name = call.name.replace("/", "_").replace(".", "_")
        for kind in kinds:
            for number, array in enumerate(call.inputs if kind == "input" else call.outputs):
                if array is not None:
                    whole = folder / f"{call.type}.{name}.{place}.0.{stamp}.{kind}.{number}.npy"
                    write_atomically(whole, partial(_save, array), durable=False)


def _save(array: np.ndarray, path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, array)


def _is_finite(array: np.ndarray | None) -> bool:
    if array is None or array.dtype.kind != "f":
        return True
    if array.dtype == np.float16 and bool((np.abs(array) >= _LARGEST_HALF).any()):
        return False
    return bool(np.isfinite(array).all())
