"""What a test's result means: `classify`. The kinds are in `KINDS`, the best first."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

OUTSIDE = ("skipped", "disabled", "hardware", "cannot run")
"""Kinds that say nothing about the emulator; the share of what passes is without them."""

KINDS = ("passed", *OUTSIDE, "refused", "not emulated", "too slow", "crashed", "wrong")

_BY_PLACE = re.compile(r"TestForeachAddList::test_foreach_add_list_(out|inplace)_float16")
"""Tests that compare with the CPU's own kernel where that rounds an element by its place: `cpu_rounds_by_place`."""

OF_THE_TEST = ("passed", "skipped")

MEANINGS = {
    "passed": "passed",
    "skipped": "skipped itself",
    "disabled": "fails by the vendor's list",
    "hardware": "needs hardware",
    "cannot run": "cannot run here",
    "refused": "refused as the vendor refuses",
    "not emulated": "not emulated",
    "too slow": "too slow",
    "crashed": "ended the process",
    "wrong": "wrong",
}

_PATTERNS = (
    # The chip's own files and programs, a compiler for it, a second machine, its graph compiler.
    ("hardware", r"\bmsprof\b|npu-smi|libascendcl|libhccl|No such file.*(ascend|Ascend|CANN|opp)|torchair|triton"),
    ("hardware", r"ASCEND_HOME_PATH|npu_extension|NpuExtension|fatal error: |Ninja is required|torch_npu/csrc|TBE|GE"),
    ("hardware", r"> +.*(time\w* [<>]=? |[<>]=? \w*time)"),  # compares times of the device
    # What has to do with the versions of other packages, or with a package that is not installed.
    ("cannot run", r"No module named '(?!torch_npu)|cannot import name .* from '(?!torch_npu)|SyntaxError"),
    ("cannot run", r"module 'numpy' has no attribute|module 'torch(?!_npu)[\w.]*' has no attribute '(?!npu|classes)"),
    (
        "cannot run",
        r"NumPy|numpy\.core|_ARRAY_API|fixture '.*' not found|invalid value.*numpy|array element with a seq",
    ),
    ("cannot run", r"NameError: name |has no attribute 'has_cudnn'"),
    ("cannot run", r"found at least two devices.* does not match .*different from other tensors"),
    ("cannot run", r"< def (test_)?\w*cpu\w*exec"),  # PyTorch's own CPU kernel refuses what the test compares with
    ("too slow", r"NPU out of memory|DefaultCPUAllocator: can't allocate|MemoryError|Cannot allocate memory"),
    ("refused", r"error code is 161002"),
    ("refused", r"has no kernel for it"),
    (
        "not emulated",
        r"not emulated|is emulated without|the emulated NPU has no|neither the emulated NPU",
    ),
    ("not emulated", r"torch_npu[\w.]*' has no attribute|'_?OpNamespace' '\w*' object has no attribute"),
    ("not emulated", r"No module named 'torch_npu|cannot import name .* from 'torch_npu"),
)


def classify(row: dict[str, Any]) -> str:
    """Return the kind of one test's last row."""
    outcome = row["outcome"]
    if outcome in KINDS:
        return str(outcome)
    said = f"{row['text']} {row.get('at', '')}"
    if _BY_PLACE.match(row.get("test", "")) and "element" in said and cpu_rounds_by_place():
        return "cannot run"
    return next((kind for kind, pattern in _PATTERNS if re.search(pattern, said)), "wrong")


@functools.cache
def cpu_rounds_by_place() -> bool:
    """Return whether this CPU's `add` of float16 with a factor gives equal elements different results.

    Elements that fill no vector of the processor go through other code, which rounds the product too: what the test
    compares with then depends on an element's place. The chip, and the CPU's vectors, round the sum once.
    """
    import torch

    one, other = torch.linspace(-3, 3, 999).half(), torch.linspace(2, -2, 999).half()
    whole = torch._foreach_add([one.repeat_interleave(64)], [other.repeat_interleave(64)], alpha=5.0)[0][::64]
    alone = [torch._foreach_add([a], [b], alpha=5.0)[0] for a, b in zip(one.split(1), other.split(1), strict=True)]
    return not torch.equal(whole, torch.cat(alone))


def disabled(checkout: Path) -> frozenset[str]:
    """Return the tests, `Class::test`, that a checkout of Ascend/pytorch lists as failing on the vendor's NPUs."""
    found: set[str] = set()
    for path in (checkout / "test/unsupported_test_cases").glob(".pytorch-disabled-tests.json"):
        for name in json.loads(path.read_text("utf-8")):
            match = re.match(r"(\w+) \([\w.]+\.(\w+)\)", name)
            if match:
                found.add(f"{match[2]}::{match[1]}")
    return frozenset(found)


def merged(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the row that decides for each test: a failure stays one, whatever its tear-down says."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        if found.get(row["test"], {"outcome": "started"})["outcome"] in ("started", "passed"):
            found[row["test"]] = row
    return found
