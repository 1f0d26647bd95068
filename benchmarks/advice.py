"""How many planted bottlenecks `jumar advise` finds, and how often it accuses a clean loop.

    python benchmarks/advice.py [--rounds N] [--json FILE]

The corpus is that of the tests (`tests/advise/timing/planted*.py`): small models that train under a profiler with one
thing changed, on the CPU, and on the emulated NPU in a process of its own. A bottleneck counts as found when the rule
that must find it speaks. A clean loop is accused by each advice it gets; a busy machine makes stalls of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parents[1] / "tests" / "advise" / "timing"
sys.path.insert(0, str(CORPUS))

from planted import FAULTS, MODELS, cases, profile  # noqa: E402 - the corpus stands with the tests
from planted_npu import FAULTS as ON_NPU  # noqa: E402
from timeline import machine  # noqa: E402

from jumar.advise.look import look  # noqa: E402
from jumar.base.findings import Severity  # noqa: E402

BOUND_BY_LAUNCHES = {"JM428", "JM430"}
"""What the clean loop on the NPU rightly has: a small network is bound by launches, its products need conversions."""


def advised(path: Path) -> set[str]:
    """Return the rules that give advice about a profile."""
    return {one.code for advice in look(path) for one in advice.findings if one.severity > Severity.INFO}


def on_cpu(folder: Path, rounds: int) -> dict[str, Any]:
    """Return found and planted bottlenecks, and accusations of clean loops, over some rounds."""
    missed: Counter[str] = Counter()
    planted = 0
    for _ in range(rounds):
        for fault, model, code in cases():
            planted += 1
            if code not in advised(profile(folder / "trace.json", model, FAULTS[fault][0])):
                missed[f"{fault}, {model}"] += 1
    clean = [sorted(advised(profile(folder / "trace.json", model))) for _ in range(rounds) for model in MODELS]
    return {
        "planted": planted, "found": planted - sum(missed.values()), "missed": dict(missed), "clean_loops": len(clean),
        "accused": [codes for codes in clean if codes],
    }  # fmt: skip


def on_npu(folder: Path) -> dict[str, Any]:
    """Return the same of the emulated NPU, whose profiles are estimates and the same each time."""
    subprocess.run([sys.executable, CORPUS / "planted_npu.py", folder], check=True, capture_output=True)
    missed = [fault for fault, (_, _, code) in ON_NPU.items() if code not in advised(folder / fault)]
    accused = sorted(advised(folder / "clean") - BOUND_BY_LAUNCHES)
    return {
        "planted": len(ON_NPU), "found": len(ON_NPU) - len(missed), "missed": missed, "clean_loops": 1,
        "accused": [accused] if accused else [],
    }  # fmt: skip


def main() -> None:
    """Write the profiles, judge them, print and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each case on the CPU")
    parser.add_argument("--json", type=Path, help="where the figures are kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        parts = {"cpu": on_cpu(Path(folder), options.rounds), "emulated npu": on_npu(Path(folder))}
    planted, found, accused = (sum(part[key] for part in parts.values()) for key in ("planted", "found", "clean_loops"))
    alarms = sum(len(part["accused"]) for part in parts.values())
    result = {
        "machine": machine(), "rounds": options.rounds, "faults": len(FAULTS) + len(ON_NPU),
        "recall": round(found / planted, 4), "clean_loops": accused, "clean_loops_accused": alarms, **parts,
    }  # fmt: skip
    text = json.dumps(result, indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
