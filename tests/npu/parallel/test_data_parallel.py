"""Several devices in one process: `nn.DataParallel` and the copies it is made of."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.parallel import comm

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5))


def losses(network, device):
    data, labels = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(1)), torch.arange(6) % 5
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    found = []
    for _ in range(3):
        loss = nn.functional.cross_entropy(network(data.to(device)), labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.filterwarnings("ignore:PyTorch is not compiled with NCCL")
def test_data_parallel_trains_as_one_device_does():
    reference = model()
    replicated = nn.DataParallel(copy.deepcopy(reference).npu(), device_ids=[0, 1])
    assert losses(replicated, "npu") == pytest.approx(losses(reference, "cpu"), rel=1e-5)


def test_scatter_cuts_a_tensor_over_devices_and_gather_joins_it():
    whole = torch.arange(10.0, device="npu:0")
    parts = comm.scatter(whole, [0, 1], chunk_sizes=[4, 6])
    assert [(len(part), str(part.device)) for part in parts] == [(4, "npu:0"), (6, "npu:1")]
    joined = comm.gather(parts, destination=1)
    assert ("npu:1", whole.tolist()) == (str(joined.device), joined.tolist())


def test_broadcast_puts_the_same_values_on_every_device():
    values = torch.tensor([1.0, 2.0], device="npu:0")
    copies = comm.broadcast(values, [0, 1])
    assert [(str(c.device), c.tolist()) for c in copies] == [("npu:0", [1.0, 2.0]), ("npu:1", [1.0, 2.0])]


def test_copies_of_several_tensors_come_back_by_device():
    tensors = [torch.ones(2, device="npu:0"), torch.zeros(3, device="npu:0")]
    copies = comm.broadcast_coalesced(tensors, [0, 1])
    assert [[str(t.device) for t in row] for row in copies] == [["npu:0", "npu:0"], ["npu:1", "npu:1"]]


def test_gather_wants_npu_tensors():
    with pytest.raises(RuntimeError, match="input tensor at index 1 has device 'cpu'"):
        torch._C._gather([torch.ones(1, device="npu"), torch.ones(1)], 0, None)


def test_scatter_wants_a_size_for_every_device():
    with pytest.raises(RuntimeError, match=r"len\(devices\) = 2 and len\(chunk_sizes\) = 1"):
        torch._C._scatter(torch.ones(4, device="npu"), [0, 1], [4], 0, None)
