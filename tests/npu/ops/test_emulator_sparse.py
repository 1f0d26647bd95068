"""Sparse tensors on the npu: the representation, what the vendor computes, and what it refuses."""

from __future__ import annotations

import warnings
from contextlib import nullcontext

import pytest
import torch

from jumar.device import DevicePlan, activate, emulate
from jumar.npu import listen
from jumar.soc.support import SupportTables
from jumar.soc.support.knowledge import SPARSE_OPERATORS

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))


@pytest.fixture
def pair():
    """The same sparse matrix on the CPU and on the npu."""
    indices, values = [[0, 2, 2, 1], [1, 0, 0, 2]], [1.0, 2.0, 3.0, 4.0]
    return tuple(
        torch.sparse_coo_tensor(indices, values, (3, 3), device=device, check_invariants=True)
        for device in ("cpu", "npu")
    )


def test_a_sparse_tensor_is_made_on_the_device(pair):
    cpu, npu = pair
    assert (npu.device.type, npu.layout, npu._nnz(), npu.is_coalesced()) == ("npu", torch.sparse_coo, 4, False)
    assert (npu._indices().device.type, npu._values().device.type) == ("npu", "npu")
    assert torch.equal(npu.to_dense().cpu(), cpu.to_dense())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.coalesce().values(),
        lambda x: (x + x).to_dense(),
        lambda x: (x * 2).to_dense(),
        lambda x: (-x).to_dense(),
        lambda x: x.to_dense().to_sparse().indices(),
        torch.sparse.sum,
        lambda x: x.clone().to_dense(),
        lambda x: torch.sparse.mm(x, torch.ones(3, 2, device=x.device)),
        lambda x: torch.ones(3, 3, device=x.device).add_(x),
        lambda x: torch.sparse.softmax(x.coalesce(), 1).to_dense(),
        lambda x: x.t().to_dense(),
        lambda x: x.clone().zero_().to_dense(),
        lambda x: x.clone().mul_(3).to_dense(),
    ],
)
def test_results_equal_the_cpus(pair, function):
    expected, found = (function(x) for x in pair)
    assert (found.device.type, torch.equal(found.cpu(), expected)) == ("npu", True)


def test_it_travels_between_devices(pair):
    cpu, npu = pair
    back = npu.cpu()
    assert (back.device.type, torch.equal(back.to_dense(), cpu.to_dense())) == ("cpu", True)
    assert torch.equal(cpu.to("npu").to_dense(), npu.to_dense())


def test_sparse_gradients_train_an_embedding():
    def trained(device: str) -> torch.Tensor:
        torch.manual_seed(0)
        layer = torch.nn.Embedding(6, 3, sparse=True).to(device)
        optimizer = torch.optim.SparseAdam(layer.parameters())
        for _ in range(2):
            optimizer.zero_grad()
            layer(torch.tensor([1, 1, 4], device=device)).square().sum().backward()
            optimizer.step()
        return layer.weight.detach().cpu()

    assert torch.equal(trained("cpu"), trained("npu"))


def test_its_parts_are_counted():
    before = torch.npu.memory_allocated()
    x = torch.eye(100, device="npu").to_sparse()
    assert torch.npu.memory_allocated() - before == 2048 + 512
    del x
    assert torch.npu.memory_allocated() == before


def test_what_the_vendor_has_no_sparse_kernel_for_is_refused(pair):
    with (
        emulate(unsupported="warn"),
        pytest.raises(RuntimeError, match=r"'aten::addmm' is not currently supported on the NPU backend"),
    ):
        torch.sparse.addmm(torch.ones(3, 3, device="npu"), pair[1], torch.ones(3, 3, device="npu"))
    with emulate(unsupported="warn"):
        assert pair[1].coalesce()._nnz() == 3


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
def test_compressed_layouts_are_refused_in_a_sentence():
    with pytest.raises(NotImplementedError, match="compressed by row or column"):
        torch.eye(3).to_sparse_csr().to("npu").to_dense()
    with pytest.raises(NotImplementedError, match=r"no tensors of layout torch\.sparse_csr"):
        torch.eye(3, device="npu").to_sparse_csr()


CALLS = {
    "torch.spmm": torch.spmm,
    "torch.dsmm": torch.dsmm,
    "torch.hsmm": torch.hsmm,
    "torch.smm": torch.smm,
    "torch.hspmm": torch.hspmm,
    "torch.saddmm": lambda s, d: torch.saddmm(s, s, d),
    "torch.sspaddmm": lambda s, d: torch.sspaddmm(s, s, d),
    "torch.sparse.mm": torch.sparse.mm,
    "torch.sparse.addmm": lambda s, d: torch.sparse.addmm(d, s, d),
    "torch.sparse.sum": lambda s, d: torch.sparse.sum(s),
    "torch.sparse.softmax": lambda s, d: torch.sparse.softmax(s, 1),
    "torch.sparse.log_softmax": lambda s, d: torch.sparse.log_softmax(s, 1),
    "torch.Tensor.smm": lambda s, d: s.smm(d),
    "torch.Tensor.sspaddmm": lambda s, d: s.sspaddmm(s, d),
    "torch.Tensor.sparse_mask": lambda s, d: d.sparse_mask(s),
}


@pytest.mark.parametrize("name", CALLS)
def test_functions_of_sparse_tensors_run_where_the_assessment_says_so(name):
    sparse, dense = torch.eye(3, device="npu").to_sparse().coalesce(), torch.ones(3, 3, device="npu")
    support = SupportTables.load("Ascend910B1", "2.13").api(name)
    refused = pytest.raises(RuntimeError, match=f"'aten::{SPARSE_OPERATORS[name]}")
    with emulate(unsupported="warn"), nullcontext() if support.supported else refused:
        CALLS[name](sparse, dense)


def test_listeners_hear_of_sparse_copies_and_of_sparse_results_of_the_host():
    heard = []
    table = torch.nn.EmbeddingBag(10, 4, sparse=True).npu()
    with emulate(unsupported="warn"), warnings.catch_warnings(), listen(heard.append):
        warnings.simplefilter("ignore")
        table(torch.tensor([[1, 2], [3, 4]], device="npu")).sum().backward()
        torch.eye(3).to_sparse().npu().cpu()
    assert table.weight.grad.layout is torch.sparse_coo
    transfers = [(event.operator, event.transfer) for event in heard if event.transfer]
    assert ("aten::_to_copy", "host-to-device") in transfers
    assert all(event.transfer_bytes > 0 for event in heard if event.transfer)
