"""Custom operators of the vendor keep the contract that Jumar ships for operators on the emulated NPU.

The reference is the operator's own function on the CPU: what the contract adds is the way there and back. Plain
references are in the other tests of this folder.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_custom_llm_opcheck import SAMPLES
from torch.utils._pytree import tree_map

from jumar.npu.ops.mechanism.implement import IMPLEMENTATIONS, Implementation, arguments
from jumar.testing import NpuOperatorContract
from jumar.testing.contracts.npu_operator import Call

LEFT_OUT = {"npu_quant_matmul", "npu_quantize"}
"""Their samples name a dtype, of which the dispatcher makes the number that the function is given."""
PLAIN = sorted(
    name
    for name in SAMPLES
    if not IMPLEMENTATIONS[name].schema.written and not name.startswith("npu_fusion_attention")
    if name not in LEFT_OUT
)
"""NOTE: attention has kernels of its own above its function, with a seed and offsets among its results."""


def on_cpu(value: Any) -> Any:
    return value.detach().cpu() if isinstance(value, torch.Tensor) else value


class TestOperators(NpuOperatorContract):
    name: str

    @pytest.fixture(autouse=True, params=PLAIN)
    def _each(self, request: pytest.FixtureRequest) -> None:
        self.name = request.param

    @property
    def implementation(self) -> Implementation:
        return IMPLEMENTATIONS[self.name]

    def samples(self) -> list[Call]:
        return [
            tree_map(
                lambda value: value.detach().cpu() if isinstance(value, torch.Tensor) else value, SAMPLES[self.name]()
            )
        ]

    def reference(self, *args: Any, **kwargs: Any) -> Any:
        positional, keywords = arguments(self.implementation.schema, args, kwargs)
        return self.implementation.function(*positional, **keywords)
