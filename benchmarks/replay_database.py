"""Replays what PyTorch's operator database calls: `python benchmarks/replay_database.py [--json FILE]`.

For each entry of `torch.testing`'s database, samples are run forward and backward under `jumar.record` with whole
tensors. Every aten call that was recorded is then re-executed on the CPU in its own dtypes and must return the same
bits; and in float64, against which it must be off by no more than rounding. What cannot be replayed is counted by its
cause.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import sys
import tempfile
import types
import unittest
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import jumar
from jumar.comparison.replay import Replayed, replay

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "complex64": torch.complex64, "int64": torch.int64}


def samples(info: Any, dtype: torch.dtype, limit: int) -> Iterator[Any]:
    grad = info.supports_autograd and dtype in info.supported_backward_dtypes("cpu")
    try:
        for position, sample in enumerate(info.sample_inputs("cpu", dtype, requires_grad=grad)):
            if position >= limit:
                return
            yield sample
    except Exception:  # noqa: BLE001 - a generator of samples that fails here is no subject of this proof
        return


def run(info: Any, sample: Any) -> None:
    result = info.op(sample.input, *sample.args, **sample.kwargs)
    tensors = result if isinstance(result, (list, tuple)) else [result]
    outputs = [sample.output_process_fn_grad(item) if isinstance(item, torch.Tensor) else item for item in tensors]
    wanted = [item for item in outputs if isinstance(item, torch.Tensor) and item.requires_grad]
    if wanted and all(item.layout is torch.strided for item in wanted):
        torch.autograd.backward(wanted, [torch.ones_like(item) for item in wanted])


def replayed(info: Any, dtype: torch.dtype, limit: int, folder: Path) -> list[Replayed]:
    drawn = list(samples(info, dtype, limit))  # before the recording: drawing random samples is no part of it
    with jumar.record(folder, values="tensors", levels=("op",), force=True):
        for sample in drawn:
            try:
                run(info, sample)
            except Exception:  # noqa: BLE001 - a sample that this build of PyTorch refuses says nothing of replaying
                continue
    try:
        return replay(folder, on="cpu")
    except jumar.base.errors.JumarError:
        return []


def database() -> list[Any]:
    """The database's module imports `expecttest`, which only PyTorch's own tests need."""
    if importlib.util.find_spec("expecttest") is None:
        stub = types.ModuleType("expecttest")
        stub.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        stub.assert_expected_inline = None  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stub
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--only", default="")
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    counts: Counter[str] = Counter()
    examples: dict[str, dict[str, str]] = {}
    index, of = (int(part) for part in arguments.shard.split("/"))
    root = Path(tempfile.mkdtemp())
    for position, info in enumerate(database()):
        if position % of != index or (arguments.only and arguments.only not in info.name):
            continue
        for name in arguments.dtypes.split(","):
            if DTYPES[name] not in info.supported_dtypes("cpu"):
                continue
            for row in replayed(info, DTYPES[name], arguments.samples, root / "recording"):
                judge(row, info.name, counts, examples)
        shutil.rmtree(root / "recording", ignore_errors=True)
        counts["entries"] += 1
        write(counts, examples, arguments)  # a proof that is stopped has shown what it has shown
    shutil.rmtree(root)
    report(counts)


def judge(row: Replayed, entry: str, counts: Counter[str], examples: dict[str, dict[str, str]]) -> None:
    counts["calls"] += 1
    if row.cause is not None:
        kind = f"not replayable: {row.cause}"
        note = row.note
    elif row.on_difference is None:
        kind, note = "no re-execution in its own dtype", row.note
    elif not row.on_difference.bit_identical:
        kind, note = "other bits", str(row.on_difference.worst)
    else:
        kind, note = "bit-identical", ""
    counts[kind] += 1
    if note:
        examples.setdefault(kind, {}).setdefault(row.row.name, f"{entry}: {note}")
    if row.cause is None:
        counts[f"truth in {row.precision}"] += 1
    if row.verdict == "own fault":
        counts["own fault"] += 1
        worst = row.own.worst if row.own is not None else None
        examples.setdefault("own fault", {}).setdefault(row.row.name, f"{entry}: {row.row.arguments} {worst}")


def write(counts: Counter[str], examples: dict[str, dict[str, str]], arguments: argparse.Namespace) -> None:
    if arguments.json is None:
        return
    asked = {"samples": arguments.samples, "dtypes": arguments.dtypes, "shard": arguments.shard}
    document = {
        "torch": torch.__version__,
        "asked": asked,
        "share": share(counts),
        "counts": counts,
        "examples": examples,
    }
    arguments.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


def share(counts: Counter[str]) -> float:
    """Return the share of the calls that compute something from their inputs which were replayed."""
    nothing = ("no tensor result", "uninitialised", "random")
    computing = counts["calls"] - sum(counts[f"not replayable: {cause}"] for cause in nothing)
    return (counts["bit-identical"] + counts["other bits"]) / max(computing, 1)


def report(counts: Counter[str]) -> None:
    drawn = counts["not replayable: random"]
    replayed_calls = counts["bit-identical"] + counts["other bits"]
    print(f"{replayed_calls:,} calls were replayed: {share(counts):.2%} of those that compute from their inputs alone,")
    print(
        f"{replayed_calls / max(replayed_calls / max(share(counts), 1e-9) + drawn, 1):.2%} with those that draw numbers"
    )
    for kind, count in counts.most_common():
        print(f"  {count:7,} {kind}")


if __name__ == "__main__":
    main()
