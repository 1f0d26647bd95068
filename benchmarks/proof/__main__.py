"""Run PyTorch's own databases on the emulated NPU against the CPU and count what agrees.

    python benchmarks/proof [--part operators|modules|optimizers] [--every N] [--only NAME] [--json FILE]

The databases are `op_db`, `module_db` and `optim_db` of `torch.testing._internal`, which come with PyTorch.
Numerics are `exact`, so results must be equal bit for bit. Every operator's values are compared; which of
them the vendor's build has no NPU kernel for, and so refuses or leaves to the host, is counted as refused by
the policy `error`. `not_emulated` is what the emulator itself says it does not have.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from compare import Outcome
from modules import module_database, try_module
from operators import DTYPES, choose, refusal, try_operator
from optimizers import optimizer_database, try_optimizer

from jumar.device import DevicePlan, activate, emulate

Task = tuple[str, Callable[[], Outcome]]


def tasks(part: str, options: argparse.Namespace) -> Iterator[Task]:
    """Yield the name and the trial of every subject of a part."""
    if part == "operators":
        wanted = (getattr(torch, options.dtype),) if options.dtype else DTYPES
        for op, dtype in choose(None, 1, wanted):
            yield op.name, lambda op=op, dtype=dtype: try_operator(op, dtype, options.samples)
    elif part == "modules":
        for info in module_database():
            yield info.name, lambda info=info: try_module(info, options.samples)
    else:
        for info in optimizer_database():
            yield info.optim_cls.__name__, lambda info=info: try_optimizer(info)


def run(part: str, options: argparse.Namespace) -> dict[str, Any]:
    """Try a part and return its table."""
    start, outcomes = time.monotonic(), []
    for number, (name, trial) in enumerate(tasks(part, options)):
        if number % options.every or (options.only and options.only not in name):
            continue
        if options.verbose:
            print(name, flush=True)
        outcomes.append(trial())
        if outcomes[-1].trouble:
            print(f"{outcomes[-1].name}: {outcomes[-1].trouble}", flush=True)
    refused = refusals(options) if part == "operators" else {}
    missing = {item.name: item.not_emulated for item in outcomes if item.not_emulated}
    wrong = {item.name: item.trouble for item in outcomes if item.trouble}
    return {
        "num_tried": len(outcomes),
        "num_agreeing": len(outcomes) - len(wrong) - len(missing),
        "num_wrong": len(wrong),
        "num_not_emulated": len(missing),
        "num_refused_by_policy": len(refused),
        "num_samples": sum(item.num_samples for item in outcomes),
        "num_samples_with_gradients": sum(item.num_gradients for item in outcomes),
        "num_samples_the_cpu_does_not_repeat": sum(item.num_unrepeatable for item in outcomes),
        "wrong": wrong,
        "not_emulated": missing,
        "refused_by_policy": refused,
        "duration_s": round(time.monotonic() - start),
    }


def refusals(options: argparse.Namespace) -> dict[str, str]:
    """Return what the policy `error` refuses, with its sentence, on the default chip."""
    found = {}
    with emulate(numerics="exact", unsupported="error"):
        for number, (op, dtype) in enumerate(choose(None, 1)):
            if number % options.every or (options.only and options.only not in op.name):
                continue
            sentence = refusal(op, dtype)
            if sentence:
                found[op.name] = sentence
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ["operators", "modules", "optimizers"]
    parser.add_argument("--part", choices=parts, action="append", help="this part only")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every Nth subject")
    parser.add_argument("--only", metavar="NAME", help="subjects whose name contains this")
    parser.add_argument("--samples", type=int, default=6, metavar="N", help="samples of each subject")
    parser.add_argument("--dtype", help="operators: this type only, e.g. bfloat16")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))
    warnings.simplefilter("ignore")
    document: dict[str, Any] = {
        "command": "python benchmarks/proof --json benchmarks/proof/results.json",
        "date": datetime.date.today().isoformat(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "dtype": options.dtype or "float32, or the first of complex64, int64, bool the operator has",
    }
    num_wrong = 0
    for part in options.part or parts:
        document[part] = table = run(part, options)
        num_wrong += table["num_wrong"]
        print(
            f"{part}: {table['num_tried']} tried, {table['num_agreeing']} agree, {table['num_wrong']} wrong, "
            f"{table['num_not_emulated']} not emulated, {table['num_refused_by_policy']} refused by policy; "
            f"{table['num_samples']} samples forward, {table['num_samples_with_gradients']} with gradients, "
            f"in {table['duration_s']} s"
        )
    if options.json:
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return int(num_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
