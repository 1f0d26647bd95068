"""FSDP and DTensors on a device above 0, and the random numbers of their shards."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from jumar.device import DevicePlan, activate
from jumar.npu.parallel.hccl.sharded_random import DrawState

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))


@pytest.mark.slow
def test_a_mesh_chooses_the_device_and_everything_sharded_stays_on_it():
    script = Path(__file__).parents[1] / "emulator_isolated" / "sharded.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "used at first": False,
        "current device": 1,
        "devices": ["npu:1"],
        "device of the norm": "npu:1",
        "drawn twice the same": True,
        "used at last": True,
    }


def state(offset: int) -> torch.Tensor:
    made = DrawState(torch.Generator().manual_seed(5).get_state())
    made.offset = made.offset + offset
    return made.state


def test_a_state_that_was_not_moved_is_the_state_itself():
    assert torch.equal(state(0), torch.Generator().manual_seed(5).get_state())


def test_shards_draw_different_numbers_and_replicas_the_same():
    assert torch.equal(state(4), state(4))
    assert not torch.equal(state(4), state(8))
    generator = torch.Generator()
    generator.set_state(state(4))
    assert torch.rand(2, generator=generator).isfinite().all()


class Mute(TorchDispatchMode):
    """Operators that do not say which attention kernel is for their tensors."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten._fused_sdp_choice.default:
            raise NotImplementedError("no rule for it")
        return func(*args, **(kwargs or {}))


def test_attention_of_tensors_that_cannot_be_asked_is_the_formula():
    values = torch.randn(2, 2, 4, 8)
    expected = functional.scaled_dot_product_attention(values, values, values)
    with Mute():
        found = functional.scaled_dot_product_attention(values.npu(), values.npu(), values.npu())
    torch.testing.assert_close(found.cpu(), expected)


@pytest.mark.parametrize("num_key_heads", [2, 1])
def test_there_a_causal_mask_hides_what_comes_later(num_key_heads):
    query, key = torch.randn(2, 2, 4, 8), torch.randn(2, num_key_heads, 4, 8)
    expected = functional.scaled_dot_product_attention(query, key, key, is_causal=True, enable_gqa=True)
    with Mute():
        q, k = query.npu(), key.npu()
        found = functional.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=True)
    torch.testing.assert_close(found.cpu(), expected)
