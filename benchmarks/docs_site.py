"""How long the site of the guides takes to build, and how big it is.

pip install '.[docs]' && python benchmarks/docs_site.py --json benchmarks/docs_site.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROUNDS = 5


def build(folder: Path) -> float:
    """Build the site into a folder; return the seconds."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(folder)]
    started = time.perf_counter()
    subprocess.run(command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        seconds = [build(folder) for _ in range(ROUNDS)]
        files = [file for file in folder.rglob("*") if file.is_file()]
        result = {
            "date": date.today().isoformat(),
            "python": platform.python_version(),
            "mkdocs": metadata.version("mkdocs"),
            "mkdocs-material": metadata.version("mkdocs-material"),
            "cores": os.cpu_count(),
            "load": round(os.getloadavg()[0], 2),
            "build_s": {
                "median": round(statistics.median(seconds), 2),
                "least": round(min(seconds), 2),
                "most": round(max(seconds), 2),
            },
            "pages": sum(file.suffix == ".html" for file in files),
            "size_bytes": sum(file.stat().st_size for file in files),
        }
    text = json.dumps(result, indent=2)
    print(text)
    if asked.json is not None:
        asked.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
