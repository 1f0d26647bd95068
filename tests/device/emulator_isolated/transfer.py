"""`transfer_to_npu`. Run in a process of its own (see test_emulator_isolated.py): it cannot be undone."""

from __future__ import annotations

import torch
from torch import nn

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

from torch_npu.contrib import transfer_to_npu  # noqa: E402, F401 (the import is what is tested, and needs the device)


def test_cuda_names_mean_the_npu():
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    x = torch.ones(2, device=device)
    assert (str(device), str(x.device), x.is_cuda, isinstance(x.device, torch.device)) == ("npu:0", "npu:0", True, True)
    assert {t.device.type for t in (x.cuda(), torch.ones(1).cuda(), torch.ones(1).to("cuda"), x.new_zeros(1))} == {
        "npu"
    }
    assert nn.Linear(2, 2).cuda().weight.device.type == nn.Linear(2, 2).to("cuda").weight.device.type == "npu"
    torch.cuda.set_device(0)
    torch.cuda.synchronize()
    torch.cuda.manual_seed_all(1)
    assert torch.cuda.memory_allocated() == torch.npu.memory_allocated()


def test_mixed_precision_under_its_cuda_names():
    model = nn.Linear(2, 2).cuda()
    scaler = torch.cuda.amp.GradScaler()
    with torch.autocast("cuda"), torch.cuda.amp.autocast():
        y = model(torch.ones(1, 2, device="cuda"))
    scaler.scale(y.sum()).backward()
    assert (y.dtype, model.weight.grad.device.type) == (torch.float16, "npu")
