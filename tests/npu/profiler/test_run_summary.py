"""The summary of a run, with devices hidden and with sparse tensors."""

from __future__ import annotations

import warnings

import pytest
import torch

from jumar.device import DevicePlan, activate, emulate
from jumar.npu.profiler.summary import watch

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))


@pytest.mark.parametrize(("visible", "num"), [("0", 1), ("0,1", 2), ("1,3", 2), ("2,1", 1), (None, 8)])
def test_it_tells_of_the_devices_that_are_visible(monkeypatch, visible, num):
    if visible is None:
        monkeypatch.delenv("ASCEND_RT_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", visible)
    with watch() as watching:
        x = torch.ones(1000, device="npu") + 1
        watching.end_step()
    assert [device.index for device in watching.summary().memory] == [0]
    assert len(torch.npu.get_rng_state_all()) == num
    torch.npu.memory._record_memory_history()
    assert len(torch.npu.memory._snapshot()["device_traces"]) == num
    torch.npu.memory._record_memory_history(None)
    assert x.numel() == 1000


def test_sparse_gradients_are_part_of_a_run():
    table = torch.nn.EmbeddingBag(10, 4, sparse=True).npu()
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
    with emulate(unsupported="warn"), warnings.catch_warnings(), watch() as watching:
        warnings.simplefilter("ignore")
        for _ in range(2):
            optimizer.zero_grad()
            table(torch.tensor([[1, 2], [3, 4]], device="npu")).sum().backward()
            optimizer.step()
            watching.end_step()
        summary = watching.summary()
    assert (summary.num_steps, dict(summary.host_operators)) == (2, {"aten::_embedding_bag_backward": 2})
