"""How long the workbench's pages take over a recording of 10 million rows: benchmarks/view.json.

    python benchmarks/view.py [FOLDER]

Writes the recording to FOLDER where it is not there yet (1,000 steps of 10,000 rows, 840 MB), starts `jumar view`, asks
for each page `TIMES` times as a browser does, and notes the first, the median, the longest, the time of the processor
a page, and the memory of the server. `ready_s` is when all rows are read, their checksums compared, after the recording
was first looked at: until then a page that needs all of them waits, and says how far they are. Other programs on the
machine lengthen the times; `load_average` says whether there were any, and `processor_ms` hardly depends on them.
"""

from __future__ import annotations

import http.client
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from view_recording import generate

from jumar.base.host import usable_cores

STEPS, ROWS = 1000, 10_000
TIMES = 7
RESULT = Path(__file__).with_suffix(".json")
PAGES = {
    "first rows": "rows",
    "one step": "rows?step=500",
    "page 100,000 of the recording's order": "rows?first=5000000",
    "sorted by host time": "rows?sort=duration_us&down=1",
    "sorted by operator": "rows?sort=name",
    "a sorted page far down": "rows?sort=duration_us&down=1&first=9900",
    "operator filtered, sorted by host time": "rows?q=gelu&sort=duration_us&down=1",
    "two words, phase, sorted by module": "rows?q=softmax+h.13.&phase=backward&sort=module_path",
    "one call with its tensors": "row?step=500&rank=0&seq=4999",
    "loss curve and operators by time": "charts",
}


class Server:
    """`jumar view` over a folder."""

    def __init__(self, folder: Path) -> None:
        began = time.perf_counter()
        command = [sys.executable, "-m", "jumar", "view", str(folder), "--no-browser", "--port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        told = ""
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)/\?token=(\S+)", told)):
            told += self.process.stderr.readline()  # type: ignore[union-attr]
        self.port, self.token = int(found[1]), found[2]
        self.ask("/")
        self.start_s = time.perf_counter() - began

    def ask(self, path: str) -> tuple[float, str]:
        """Return the seconds of an answer and its text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        began = time.perf_counter()
        connection.request("GET", path, headers={"Cookie": f"jumar-view-{self.port}={self.token}"})
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 200, (path, answer.status, text[-500:])
        return time.perf_counter() - began, text

    def processor_s(self) -> float:
        """Return the seconds of the processor that the server has used: they hardly depend on other programs."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self, name: str = "VmRSS") -> float:
        """Return the server's memory in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{name}:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def measure(server: Server, item: str) -> dict[str, Any]:
    """Return the times of all pages."""
    found = {}
    for name, page in PAGES.items():
        first = server.ask(f"/item/{item}/{page}")[0]
        before = server.processor_s()
        times = [first, *(server.ask(f"/item/{item}/{page}")[0] for _ in range(TIMES))]
        processor = (server.processor_s() - before) / TIMES
        found[name] = {
            "first_ms": round(times[0] * 1000),
            "median_ms": round(statistics.median(times[1:]) * 1000),
            "longest_ms": round(max(times[1:]) * 1000),
            "processor_ms": round(processor * 1000),
        }
        print(f"{name}: {found[name]}", file=sys.stderr)
    return found


def main(folder: Path) -> None:
    """Measure and write the result."""
    run = folder / "run"
    if not (run / "run.json").is_file():
        generate(run, STEPS, ROWS)
    load = os.getloadavg()[0]
    server = Server(folder)
    try:
        item = re.search(r"/item/(\w+)", server.ask("/")[1])[1]  # type: ignore[index]
        listing = statistics.median(server.ask("/")[0] for _ in range(TIMES))
        idle = server.memory_mib()
        first_s = server.ask(f"/item/{item}/rows")[0]
        began = time.perf_counter()
        while json.loads(server.ask(f"/item/{item}/reading")[1])["state"] != "done":
            time.sleep(0.02)
        ready_s = time.perf_counter() - began
        pages = measure(server, item)
        result = {
            "machine": f"{platform.processor() or platform.machine()}, {usable_cores()} cores",
            "load_average": round(load, 2),
            "rows": STEPS * ROWS,
            "files": STEPS,
            "start_s": round(server.start_s, 2),
            "list_ms": round(listing * 1000, 1),
            "first_rows_of_all_ms": round(first_s * 1000),
            "ready_s": round(first_s + ready_s, 2),
            "pages": pages,
            "memory_mib": {
                "after the list": round(idle), "after all pages": round(server.memory_mib()),
                "greatest": round(server.memory_mib("VmHWM")),
            },
        }  # fmt: skip
    finally:
        server.process.kill()
    RESULT.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    print(RESULT.read_text("utf-8"))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as place:
            main(Path(place))
