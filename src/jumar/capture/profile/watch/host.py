"""`HostSampler`: the processor, memory and clock of the machine, noted by a thread of its own at an interval."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from jumar.base.host import ROOT, cores, runnable, throttled_ms
from jumar.capture.profile.log import EventLog

INTERVAL_S = 0.1
MOST_CLOCKS = 16
"""Cores whose clock is read: a server has hundreds, and each takes a call of the system."""
_CPU = "sys/devices/system/cpu/cpu"


def rss_bytes(root: Path = ROOT) -> int | None:
    """Return the memory of this process that is in RAM; None where the system does not tell."""
    try:
        return int((root / "proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def governors(root: Path = ROOT) -> list[str]:
    """Return the frequency governors of the cores, each once; none where the system tells none (virtual machines)."""
    texts = (_text(path) for path in (root / _CPU).parent.glob("cpu[0-9]*/cpufreq/scaling_governor"))
    return sorted({text for text in texts if text})


def clock_mhz(root: Path = ROOT) -> float | None:
    """Return the mean clock of the first cores in MHz; None where the system does not tell."""
    paths = (root / f"{_CPU}{core}/cpufreq/scaling_cur_freq" for core in range(MOST_CLOCKS))
    found = [int(text) / 1000 for path in paths if (text := _text(path)).isdigit()]
    return sum(found) / len(found) if found else None


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


class HostSampler:
    """Writes `host-rank-R.jsonl`, a line a sample, and counters of the trace. The first line says what is constant.

    A sample: `t` nanoseconds since 1970, `cpu_percent` of one core that all threads of the process used since the
    last sample, `rss_bytes`, `load_1` (processes that want to run, a minute's mean), `runnable` (threads of the machine
    that run or want to at this moment), `throttled_ms` (so far, by a container's quota), `cpu_mhz`, and by device
    `allocated_bytes` and `reserved_bytes` of PyTorch's pool. What the system does not tell is left out.
    """

    def __init__(self, path: Path, log: EventLog, root: Path = ROOT) -> None:
        self._path, self._log, self._root = path, log, root
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jumar-host", daemon=True)
        self._file: IO[str] | None = None
        self.failure = ""
        """Why it had to end early, in a sentence."""

    def start(self) -> None:
        """Begin. Raises OSError where the file cannot be written."""
        self._file = self._path.open("w", encoding="utf-8", buffering=1)
        about = cores(self._root)
        constant = {
            "interval_s": INTERVAL_S, "num_cores": about.num_cores, "num_usable_cores": about.num_usable,
            "governors": governors(self._root),
        }  # fmt: skip
        self._file.write(json.dumps(constant) + "\n")
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for the thread."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._file is not None:
            self._file.close()

    def _run(self) -> None:
        last = time.monotonic(), time.process_time()
        while not self._over.wait(INTERVAL_S):
            now = time.monotonic(), time.process_time()
            try:
                self._write(self._sample((now[1] - last[1]) / (now[0] - last[0])))
            except Exception as error:  # noqa: BLE001 - what goes wrong in this thread must not disturb the run
                self.failure = f"the host after {now[1]:.1f} s of processor time: {type(error).__name__}: {error}"
                return
            last = now

    def _write(self, sample: dict[str, Any]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(sample) + "\n")

    def _sample(self, share: float) -> dict[str, Any]:
        now = time.time_ns()
        sample: dict[str, Any] = {"t": now, "cpu_percent": round(share * 100, 1)}
        self._log.count("process cpu %", "%", now, sample["cpu_percent"])
        if (size := rss_bytes(self._root)) is not None:
            sample["rss_bytes"] = size
            self._log.count("process memory", "bytes", now, size)
        with suppress(OSError, AttributeError):
            sample["load_1"] = round(os.getloadavg()[0], 2)
            self._log.count("system load", "processes", now, sample["load_1"])
        if (running := runnable(self._root)) is not None:
            sample["runnable"] = running
            self._log.count("runnable threads", "threads", now, running)
        if (stopped := throttled_ms(self._root)) is not None:
            sample["throttled_ms"] = round(stopped, 3)
            self._log.count("stopped by the quota", "ms", now, stopped)
        if (clock := clock_mhz(self._root)) is not None:
            sample["cpu_mhz"] = round(clock)
            self._log.count("cpu clock", "MHz", now, sample["cpu_mhz"])
        for device, sizes in _device_memory():
            sample[device] = sizes
            for name, value in sizes.items():
                self._log.count(f"{name.removesuffix('_bytes')} {device}", "bytes", now, value)
        return sample


def _device_memory() -> list[tuple[str, dict[str, int]]]:
    """Return what PyTorch's pools hold on the devices that the program has used."""
    found = []
    torch = sys.modules["torch"]
    for kind in ("cuda", "npu"):
        module = getattr(torch, kind, None)
        if module is None or not module.is_initialized():
            continue
        for index in range(module.device_count()):
            reserved = module.memory_reserved(index)
            if reserved:
                sizes = {"allocated_bytes": module.memory_allocated(index), "reserved_bytes": reserved}
                found.append((f"{kind}:{index}", sizes))
    return found
