"""Which devices a run used, and what the port says where the sides used another number of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from jumar.port.coverage import Coverage
from jumar.port.placement import placement_findings
from jumar.port.runs import Run


def run(side: str, devices: Mapping[int, set[str]]) -> Run:
    coverage = Coverage(
        num_calls=1,
        num_on_device=1,
        model_on_device=True,
        num_updates=1,
        devices={rank: frozenset(found) for rank, found in devices.items()},
        on_device=Counter({("forward", "", "aten::mm"): 1}),
    )
    return Run(
        side=side, end=None, returncode=0, log=Path("log"), recording=None, workspace=Path("/w"), coverage=coverage
    )


@pytest.mark.parametrize(
    ("reference", "target", "message"),
    [
        ({0: {"cuda:0", "cuda:1"}}, {0: {"npu:0"}}, "rank 0 used 2 devices in the reference run and 1 in the NPU run"),
        ({0: {"cuda:0", "cuda:1"}}, {0: {"npu:0", "npu:1"}}, ""),
        ({0: {"cuda:0"}, 1: {"cuda:1"}}, {0: {"npu:0"}, 1: {"npu:1"}}, ""),
        ({0: {"cuda:0"}}, {0: set()}, ""),
    ],
)
def test_a_process_that_shares_its_batch_out_on_one_side_only_is_told_of(reference, target, message) -> None:
    found = [one for one in placement_findings(run("reference", reference), run("npu", target)) if one.code == "JM910"]
    assert len(found) == bool(message)
    assert all(one.message.startswith(message) and "CUDA_VISIBLE_DEVICES=0" in one.action for one in found)
