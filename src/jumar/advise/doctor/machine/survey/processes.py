"""`ask_npu_smi` and `survey_holders`: the chips' health and memory, and the processes that hold them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from jumar.advise.doctor.machine.parts import Chip, DeviceProcess, Smi
from jumar.base.host import read_text

TIMEOUT_S = 20
Run = Callable[..., "subprocess.CompletedProcess[str]"]
_VERSION = re.compile(r"npu-smi\s+(\S+)\s+Version:\s*(\S+)")
_USED = re.compile(r"(\d+)\s*/\s*(\d+)")
_DEVICE = re.compile(r"/dev/davinci\d+")


def ask_npu_smi(tool: str | None, *, run: Run = subprocess.run) -> Smi | None:
    """Return what `npu-smi info` prints; None where the tool is not there, fails or does not end."""
    if tool is None:
        return None
    try:
        done = run([tool, "info"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False, errors="replace")
    except (OSError, subprocess.SubprocessError):
        return None
    return read_npu_smi(done.stdout) if done.returncode == 0 and done.stdout.strip() else None


def read_npu_smi(text: str) -> Smi:
    """Read the tables of `npu-smi info`: two rows a chip, then one row a process.

    The forms are those of 23.0 to 26.0: with and without the column of physical ids, and of ids in the container.
    """
    version, chips, processes = "", [], []
    first: list[str] | None = None
    is_processes = False
    for line in text.splitlines():
        if match := _VERSION.search(line):
            version = match[2]
        if not line.lstrip().startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        is_processes = is_processes or (len(cells) > 1 and cells[1] == "Process id")
        head = cells[0].split()
        if not head or not head[0].isdigit():
            continue
        if is_processes:
            processes += _process(head, cells)
        elif first is None:
            first = cells
        else:
            chips.append(_chip(first, cells))
            first = None
    return Smi(version=version, chips=tuple(chips), processes=tuple(processes), text=text)


def _chip(first: list[str], second: list[str]) -> Chip:
    name, place = first[0].split(), second[0].split()
    used = _USED.findall(second[-1])
    memory = next((pair for pair in reversed(used) if pair[1] != "0"), None)
    return Chip(
        npu=int(name[0]),
        chip=int(place[0]),
        name=" ".join(name[1:]),
        health=first[1] if len(first) > 1 else "",
        bus=second[1].upper() if len(second) > 1 else "",
        used_mb=int(memory[0]) if memory else None,
        total_mb=int(memory[1]) if memory else None,
    )


def _process(head: list[str], cells: list[str]) -> list[DeviceProcess]:
    if len(cells) < 4 or not cells[1].isdigit():
        return []
    memory = cells[3].split()
    size = int(memory[0]) if memory and memory[0].isdigit() else None
    return [DeviceProcess(pid=int(cells[1]), name=cells[2], npu=int(head[0]), memory_mb=size)]


def survey_holders(root: Path) -> tuple[DeviceProcess, ...] | None:
    """Return other processes that have a device file open; None where no process may be looked at."""
    found, looked = [], False
    for folder in (root / "proc").glob("[0-9]*"):
        if int(folder.name) == os.getpid():
            continue
        try:
            targets = [str(entry.readlink()) for entry in (folder / "fd").iterdir()]
        except OSError:  # another user's, or gone
            continue
        looked = True
        devices = [target for target in targets if _DEVICE.fullmatch(target)]
        if devices:
            name = read_text(folder / "comm")
            number = min(int(device.removeprefix("/dev/davinci")) for device in devices)
            found.append(DeviceProcess(pid=int(folder.name), name=name, npu=number))
    return tuple(sorted(found, key=lambda one: one.pid)) if looked else None
