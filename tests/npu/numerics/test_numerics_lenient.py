"""What an NPU takes and the CPU refuses: int32 indices and labels, the norm 0, products of several dtypes."""

import pytest
import torch
from torch.nn import functional

from jumar.device import DevicePlan, activate, emulate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

X = torch.randn(4, 5, generator=torch.Generator().manual_seed(1))
PLACES = torch.tensor([[0, 2, 1, 3, 0]])
LABELS = torch.tensor([4, 0, 2, 1])

CALLS = {
    "put_": lambda x, i: x.clone().put_(i, torch.ones(1, 5).to(x.device)),
    "take": lambda x, i: x.take(i),
    "gather": lambda x, i: x.gather(0, i),
    "scatter": lambda x, i: x.scatter(0, i, torch.ones(1, 5).to(x.device)),
    "scatter_add": lambda x, i: x.scatter_add(0, i, torch.ones(1, 5).to(x.device)),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i, torch.ones(1, 5).to(x.device), "amax"),
    "index_fill": lambda x, i: x.index_fill(0, i[0, :3], 7.0),
    "index_copy": lambda x, i: x.index_copy(0, i[0, :2], torch.ones(2, 5).to(x.device)),
    "out=": lambda x, i: torch.gather(x, 0, i, out=torch.empty(1, 5, device=x.device)),
}
LOSSES = {
    "nll_loss": lambda x, y: functional.nll_loss(x.log_softmax(1), y),
    "cross_entropy": functional.cross_entropy,
}


@pytest.mark.parametrize("name", CALLS)
def test_indices_may_be_int32(name):
    with emulate(soc="Ascend910B1"):
        found = CALLS[name](X.npu(), PLACES.int().npu())
    assert torch.equal(found.cpu(), CALLS[name](X, PLACES))


@pytest.mark.parametrize("numerics", ["strict", "exact"])
@pytest.mark.parametrize("name", LOSSES)
def test_labels_may_be_int32_and_the_loss_trains(name, numerics):
    on_npu, reference = X.clone().npu().requires_grad_(), X.clone().requires_grad_()
    with emulate(soc="Ascend910B1", numerics=numerics):
        LOSSES[name](on_npu, LABELS.int().npu()).backward()
    LOSSES[name](reference, LABELS).backward()
    torch.testing.assert_close(on_npu.grad.cpu(), reference.grad)


def test_the_labels_of_several_classes_may_be_int32():
    labels = LABELS.repeat(5, 1).T.contiguous()
    with emulate(soc="Ascend910B1"):
        found = functional.multilabel_margin_loss(X.npu(), labels.int().npu())
    torch.testing.assert_close(found.cpu(), functional.multilabel_margin_loss(X, labels))


def test_an_index_that_is_wrong_for_another_reason_is_refused():
    with pytest.raises((RuntimeError, IndexError), match="out of"):
        X.npu().gather(0, (PLACES + 9).int().npu())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("form", ["new", "inplace", "out"])
def test_renorm_takes_the_norm_zero_which_counts(dtype, form):
    x = torch.tensor([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]], dtype=dtype)
    on_npu = x.npu()
    if form == "inplace":
        found = on_npu.renorm_(0, 0, 1)
    elif form == "out":
        found = torch.renorm(on_npu, 0, 0, 1, out=torch.empty(0, dtype=dtype).npu())
    else:
        found = torch.renorm(on_npu, 0, 0, 1)
    torch.testing.assert_close(found.cpu(), torch.tensor([[0.5, 0.0, 1.0], [0.0, 0.0, 3.0]], dtype=dtype))


@pytest.mark.parametrize("numerics", ["strict"])
@pytest.mark.parametrize(
    ("name", "expected"),
    [("mm", torch.float16), ("mv", torch.float32), ("addmv", torch.float32), ("bmm", torch.float16)],
)
def test_products_take_several_dtypes_from_910b_on(name, expected, numerics):
    half, wide = X.half(), torch.randn(5, 6, generator=torch.Generator().manual_seed(2))
    calls = {
        "mm": lambda a, b: a @ b,
        "mv": lambda a, b: torch.mv(a, b[:, 0]),
        "addmv": lambda a, b: torch.addmv(a[:, 0], a, b[:, 0]),
        "bmm": lambda a, b: torch.bmm(a[None], b[None]),
    }
    with emulate(soc="Ascend910B1", numerics=numerics):
        found = calls[name](half.npu(), wide.npu())
    assert found.dtype is expected
    torch.testing.assert_close(found.cpu(), calls[name](half.float(), wide).to(expected))


def test_an_lstm_cell_takes_half_input_and_float_weights_and_trains():
    cell = torch.nn.LSTMCell(5, 3)
    h, c = cell(X.half().float())
    (h.sum() + c.sum()).backward()
    expected = cell.weight_ih.grad.clone()
    with emulate(soc="Ascend910B1"):
        on_npu = torch.nn.LSTMCell(5, 3)
        on_npu.load_state_dict(cell.state_dict())
        on_npu = on_npu.npu()
        h2, c2 = on_npu(X.half().npu())
        (h2.sum() + c2.sum()).backward()
    assert h2.dtype is torch.float16
    torch.testing.assert_close(h2.cpu().float(), h, atol=2e-3, rtol=2e-3)
    torch.testing.assert_close(on_npu.weight_ih.grad.cpu(), expected, atol=4e-3, rtol=4e-3)


def test_one_hot_takes_int32_labels_and_gives_int32():
    with emulate(soc="Ascend910B1"):
        found = functional.one_hot(LABELS.int().npu(), 6), functional.one_hot(LABELS.npu(), 6)
    assert [item.dtype for item in found] == [torch.int32, torch.int64]
    assert all(torch.equal(item.cpu().long(), functional.one_hot(LABELS, 6)) for item in found)
