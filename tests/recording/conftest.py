from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jumar.recording import CallRow, TensorRow


def tensor_row(name: str = "output.0", **fields: Any) -> TensorRow:
    known: dict[str, Any] = {
        "name": name,
        "shape": (2, 3),
        "dtype": "float32",
        "device": "cpu",
        "stride": (3, 1),
        "storage_offset": 0,
        "contiguous": True,
    }
    return TensorRow(**(known | fields))


def call_row(step: int = 0, seq: int = 0, **fields: Any) -> CallRow:
    known: dict[str, Any] = {
        "step": step,
        "rank": 0,
        "seq": seq,
        "kind": "op",
        "phase": "forward",
        "module_path": "layer1.0.conv1",
        "module_type": "Conv2d",
        "name": "aten::convolution",
        "occurrence": seq,
        "inputs": (tensor_row("input.0"), tensor_row("input.1")),
        "outputs": (tensor_row(),),
    }
    return CallRow(**(known | fields))


@pytest.fixture
def make_tensor() -> Callable[..., TensorRow]:
    return tensor_row


@pytest.fixture
def make_row() -> Callable[..., CallRow]:
    return call_row
