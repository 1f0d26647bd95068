"""Training on the emulated NPU gives the CPU's numbers, bit for bit."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))


def losses(device: str, optimizer: type[torch.optim.Optimizer], **options: object) -> list[float]:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.Conv2d(8, 8, 3, stride=2),
        nn.Dropout(),
        nn.Flatten(),
        nn.Linear(8 * 6 * 6, 10),
    )
    inputs, labels = torch.randn(4, 3, 16, 16), torch.randint(0, 10, (4,))
    model, inputs, labels = model.to(device), inputs.to(device), labels.to(device)
    stepper = optimizer(model.parameters(), lr=1e-3, **options)
    found = []
    for _ in range(4):
        stepper.zero_grad()
        loss = functional.cross_entropy(model(inputs), labels)
        loss.backward()
        stepper.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 1e-4, "nesterov": True}),
        (torch.optim.Adam, {"amsgrad": True}),
        (torch.optim.AdamW, {}),
        (torch.optim.AdamW, {"foreach": True}),
        (torch.optim.AdamW, {"fused": True}),
        (torch.optim.RMSprop, {"centered": True}),
        (torch.optim.Adagrad, {}),
        # NOTE: PyTorch takes `foreach` on an accelerator; before torch 2.10 its NAdam rounds otherwise without it.
        (torch.optim.NAdam, {"foreach": True}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "-".join(value),
)
def test_losses_of_a_convolutional_network_equal_the_cpu(optimizer, options):
    assert losses("cpu", optimizer, **options) == losses("npu", optimizer, **options)
