"""Optimizers over flat buffers on the emulated NPU: plain operators, and the NPU's own scaler."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from jumar.amp import optimizers as flat
from jumar.amp.flat import flat_step
from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

import torch_npu  # noqa: E402  # there once the device is

KINDS = [
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("Adam", {"amsgrad": True}),
    ("AdamW", {}),
    ("Adadelta", {"weight_decay": 0.1}),
    ("RMSprop", {"momentum": 0.9, "centered": True, "eps": 1e-3}),
    ("RMSpropTF", {"momentum": 0.9}),
    ("Lamb", {"weight_decay": 0.1}),
    ("AdamP", {"weight_decay": 0.1}),
    ("BertAdam", {"lr": 0.01}),
]


def network(device: str) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5000), nn.Tanh(), nn.Linear(5000, 2)).to(device)


def backward(model: nn.Module, step: int, device: str) -> None:
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(step)).to(device)
    model(x).pow(2).mean().backward()


@pytest.mark.parametrize(("name", "options"), KINDS)
def test_parameters_on_the_npu_equal_those_on_the_cpu(name, options):
    found = []
    for device in ("cpu", "npu"):
        model = network(device)
        optimizer = getattr(flat, name)(model.parameters(), **options)
        for step in range(4):
            optimizer.zero_grad()
            backward(model, step, device)
            optimizer.step()
        backward(model, 4, device)
        assert not flat_step(optimizer, inverse_scale=0.5, max_norm=0.1).found_inf
        found.append([parameter.detach().cpu() for parameter in model.parameters()])
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)


def test_the_scaler_of_torch_npu_takes_them():
    model, plain = network("npu"), network("npu")
    for one, kind in ((model, flat.AdamW), (plain, torch.optim.AdamW)):
        optimizer = kind(one.parameters())
        scaler = torch_npu.npu.amp.GradScaler(init_scale=1024.0)
        for step in range(3):
            optimizer.zero_grad()
            x = torch.randn(4, 6, generator=torch.Generator().manual_seed(step)).to("npu")
            scaler.scale(one(x).pow(2).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
    for own, expected in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(own.cpu(), expected.cpu(), rtol=1e-4, atol=1e-5)
