"""ASCEND_RT_VISIBLE_DEVICES hides emulated devices as it hides real ones."""

from __future__ import annotations

import pytest
import torch

import jumar
from jumar.npu.core.devices import VISIBLE_DEVICES


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 1), ("0,1", 2), ("2,5,7", 3), ("1,0", 1), ("0,0", 1), ("", 0), ("-1", 0), ("0, 1", 1), ("0,9", 1)],
)
def test_the_list_is_read_while_it_rises(text: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VISIBLE_DEVICES, text)
    with jumar.emulate(num_devices=8):
        assert torch.npu.device_count() == expected
        assert torch.npu.is_available() == (expected > 0)


def test_a_hidden_device_cannot_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VISIBLE_DEVICES, "3,4")
    with jumar.emulate(num_devices=8), pytest.raises(RuntimeError, match="there are 2 devices, npu:0 to npu:1"):
        torch.npu.set_device(2)
