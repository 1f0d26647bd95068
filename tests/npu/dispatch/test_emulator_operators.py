"""A seeded sample of PyTorch's operator database, listeners and overrides."""

from __future__ import annotations

import importlib
import random
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from jumar.base.errors import DeviceError
from jumar.device import DevicePlan, activate
from jumar.npu import OperatorEvent, listen, override

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

PROOF = Path(__file__).parents[3] / "benchmarks" / "proof"
NUM_OPERATORS, NUM_MODULES = 150, 40


def proof(part: str):
    """Import a part of the proof, which is a script and no package."""
    sys.path.insert(0, str(PROOF))
    try:
        return importlib.import_module(part)
    finally:
        sys.path.remove(str(PROOF))


def trouble(outcomes):
    return [f"{item.name}: {item.trouble}" for item in outcomes if item.trouble]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_a_sample_of_pytorchs_operators_gives_the_cpus_bits(seed):
    operators = proof("operators")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sample = random.Random(seed).sample(operators.choose(None, 1), NUM_OPERATORS)
        outcomes = [operators.try_operator(op, dtype, 1) for op, dtype in sample]
    assert trouble(outcomes) == []
    assert sum(bool(item.not_emulated) for item in outcomes) <= 3
    assert sum(item.num_gradients for item in outcomes) > NUM_OPERATORS / 2


def test_a_sample_of_pytorchs_modules_gives_the_cpus_bits():
    modules = proof("modules")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sample = random.Random(0).sample(modules.module_database(), NUM_MODULES)
        outcomes = [modules.try_module(info, 1) for info in sample]
    assert trouble(outcomes) == []
    assert sum(item.num_gradients for item in outcomes) > NUM_MODULES


@pytest.mark.slow
def test_pytorchs_optimizers_give_the_cpus_bits():
    optimizers = proof("optimizers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = [optimizers.try_optimizer(info) for info in optimizers.optimizer_database()]
    assert trouble(outcomes) == []
    assert sum(item.num_samples for item in outcomes) > 150


def test_listeners_hear_of_operators_and_transfers():
    events: list[OperatorEvent] = []
    with listen(events.append):
        x = torch.ones(3).npu()
        y = x + 1
        y.sum().item()
        y.cpu()
    y + 1
    assert [(event.operator, event.transfer, event.transfer_bytes) for event in events] == [
        ("aten::_to_copy", "host-to-device", 12),
        ("aten::add.Tensor", "", 0),
        ("aten::sum", "", 0),
        ("aten::_local_scalar_dense", "device-to-host", 4),
        ("aten::_to_copy", "device-to-host", 12),
    ]
    assert all(event.end_ns >= event.start_ns for event in events)


def test_an_override_takes_the_kernels_place_within_its_block():
    layer, x = nn.LayerNorm(4).npu(), torch.arange(4.0, device="npu")
    healthy = layer(x)

    def other_epsilon(original, value, shape, weight, bias, eps):
        assert value.is_cpu
        return original(value, shape, weight, bias, 1.0)

    with override("aten::native_layer_norm", other_epsilon):
        assert torch.allclose(layer(x).cpu(), nn.functional.layer_norm(x.cpu(), (4,), eps=1.0))
        with override("native_layer_norm", lambda original, *args: tuple(t * 0 for t in original(*args))):
            assert layer(x).abs().sum().item() == 0
    assert torch.equal(layer(x), healthy)


def test_an_override_by_base_name_covers_all_overloads():
    calls = []

    def count(original, *args, **kwargs):
        calls.append(1)
        return original(*args, **kwargs)

    x = torch.ones(2, device="npu")
    with override("aten::add", count):
        x + 1
        torch.add(x, x, out=torch.empty(2, device="npu"))
    assert len(calls) == 2


def test_overriding_an_operator_the_device_does_not_run_is_an_error():
    with pytest.raises(DeviceError, match=r"does not run 'aten::native_layer_nrm' itself.*try aten::native_layer_norm"):
        override("aten::native_layer_nrm", print).__enter__()
