"""What the ledger tells its followers."""

from __future__ import annotations

import torch

from jumar.device import DevicePlan, activate, emulate
from jumar.npu.formats.ledger import ledger

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))


def test_followers_hear_of_operators_with_their_formats():
    seen: list[ledger.Execution] = []
    with ledger.follow(seen.append):
        x = torch.ones(2, 3, 4, 4, device="npu")
        y = x + 1
    y + 1
    adds = [item for item in seen if item.event.operator == "aten::add.Tensor"]
    assert [(item.input_formats, item.output_formats) for item in adds] == [(("NCHW",), ("NCHW",))]


def test_the_ledger_is_always_on_where_the_chip_compiles_online():
    assert not ledger.is_on()
    with emulate("Ascend910A"):
        assert ledger.is_on()
        ledger.reset_counts()
        x = torch.ones(5, 7, device="npu")
        before = ledger.counts().num_compiles
        for _ in range(3):
            x.tanh()
        assert ledger.counts().num_compiles - before == 1
    assert not ledger.is_on()


def test_marks_divide_the_counts_into_steps():
    with emulate("Ascend910A"):
        x = torch.ones(5, 9, device="npu")
        ledger.reset_counts()
        x.sinh()
        ledger.mark_step()
        x.sinh()
        x.sinh()
        counted = ledger.counts()
    assert [(step.num_executions, step.num_compiles) for step in counted.steps] == [(1, 1), (2, 0)]
    assert (counted.num_executions, counted.compiles_by_operator) == (3, {"aten::sinh": 1})
