"""A folder of `.npy` files, one a tensor, named as the vendor names its dump files."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from jumar.base.files import explained, write_atomically, write_bytes
from jumar.npu.dump.calls import OperatorCall, to_array

_FORBIDDEN = re.compile(r"[.:/\\\s]+")


def file_name(text: str) -> str:
    """Return a name as it stands in file names: points, colons, slashes and blanks become underscores."""
    return _FORBIDDEN.sub("_", text)


class DumpFolder:
    """`PATH/TIME/DEVICE/`, made when the first operator of that device is written.

    Files are `TYPE.NAME.TASK.STREAM.MICROSECONDS.input.0.npy`. TYPE is the operator, NAME the operator with
    the number of its call, TASK the number of the call of any operator, STREAM 0. No two processes share a
    folder: the time is that of the first write, moved on by seconds until it is free.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._folders: dict[int, Path] = {}
        self._tasks = itertools.count(1)
        self._calls: dict[str, int] = {}

    def write(self, call: OperatorCall, sides: frozenset[str], more: Mapping[str, bytes] | None = None) -> str:
        """Write the tensors of a call of these sides (`input`, `output`) and return the stem of the files.

        `more` are further files, by what follows the stem. Raises OutputError.
        """
        folder, stem = self._place(call)
        for side, tensors in (("input", call.inputs), ("output", call.outputs)):
            if side in sides:
                for index, tensor in enumerate(tensors.values()):
                    _save(folder / f"{stem}.{side}.{index}.npy", tensor)
        for ending, data in (more or {}).items():
            with explained(folder):
                write_bytes(folder / f"{stem}.{ending}", data)
        return stem

    def _place(self, call: OperatorCall) -> tuple[Path, str]:
        kind = file_name(call.event.operator)
        with self._lock:
            task, number = next(self._tasks), self._calls.get(kind, 0)
            self._calls[kind] = number + 1
            device = call.event.device_index
            if device not in self._folders:
                self._folders[device] = _free_folder(self._path, device)
            folder = self._folders[device]
        return folder, f"{kind}.{kind}_{number}.{task}.0.{time.time_ns() // 1000}"


def _free_folder(path: Path, device: int) -> Path:
    """Make `path/TIME/device`, of a time that no other run has taken."""
    seconds = time.time()
    while True:
        stamp = time.strftime("%Y%m%d%H%M%S", time.localtime(seconds))
        folder = path / stamp / str(device)
        with explained(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            try:
                folder.mkdir()
            except FileExistsError:
                seconds += 1
                continue
        return folder


def _save(file: Path, tensor: torch.Tensor) -> None:
    def fill(part: Path) -> Any:
        with part.open("wb") as target:
            np.save(target, to_array(tensor), allow_pickle=False)

    with explained(file):
        write_atomically(file, fill)
