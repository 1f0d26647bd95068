"""Tensors on the emulated NPU: placement, views, in-place work, `out=`, copies, what they print and pickle as."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))


def same(expected: torch.Tensor, actual: torch.Tensor) -> bool:
    return actual.device.type == "npu" and torch.equal(expected, actual.cpu())


def test_a_tensor_says_that_it_is_on_the_npu():
    x = torch.ones(2, device="npu")
    assert (x.device, x.is_npu, x.is_cpu, x.get_device(), x.type()) == (
        torch.device("npu:0"),
        True,
        False,
        0,
        "torch.npu.FloatTensor",
    )
    assert not torch.ones(2).is_npu


@pytest.mark.parametrize(
    "make",
    [
        lambda d: torch.zeros(2, 3, device=d),
        lambda d: torch.full((2,), 7, device=d),
        lambda d: torch.arange(2, 9, 3, device=d),
        lambda d: torch.linspace(0, 1, 5, device=d),
        lambda d: torch.eye(3, device=d, dtype=torch.bfloat16),
        lambda d: torch.tensor([[1, 2], [3, 4]], device=d),
        lambda d: torch.zeros(0, 4, device=d),
        lambda d: torch.tensor(3.5, device=d),
        lambda d: torch.ones(3, device=d).new_full((2,), 4),
        lambda d: torch.ones(3, device=d, dtype=torch.complex64) * 2j,
        lambda d: torch.ones(2, 3, 4, 5, device=d).to(memory_format=torch.channels_last),
        lambda d: torch.tril_indices(3, 3, device=d),
    ],
)
def test_factories_make_the_cpus_tensors(make):
    expected, actual = make("cpu"), make("npu")
    assert same(expected, actual)
    assert (expected.dtype, expected.stride()) == (actual.dtype, actual.stride())


def test_tensors_move_there_and_back():
    x = torch.randn(3, 4)
    for moved in (x.npu(), x.to("npu"), x.to("npu:0"), x.to(torch.device("npu")), x.npu(non_blocking=True), x.npu(0)):
        assert same(x, moved)
    on_npu = x.npu()
    assert on_npu.to("npu") is on_npu
    assert on_npu.npu() is on_npu
    assert on_npu.cpu().device.type == "cpu"
    assert on_npu.to("cpu", torch.float64).dtype == torch.float64
    assert on_npu.to("meta").device.type == "meta"


def test_a_copy_is_not_tied_to_its_source():
    x = torch.zeros(2)
    y = x.npu()
    y.add_(1)
    assert x.tolist() == [0, 0]
    z = y.cpu()
    z.add_(1)
    assert y.tolist() == [1, 1]


def test_numpy_refuses_as_on_cuda():
    with pytest.raises(TypeError, match=r"can't convert npu:0 device type tensor to numpy. Use Tensor.cpu\(\)"):
        torch.ones(2, device="npu").numpy()
    assert np.array_equal(torch.ones(2, device="npu").cpu().numpy(), np.ones(2))


def test_printing_names_the_device():
    assert repr(torch.tensor([1.0, 2.0], device="npu")) == "tensor([1., 2.], device='npu:0')"
    assert f"{torch.tensor(1.25, device='npu'):.1f}" == "1.2"


def test_values_come_back_to_python():
    x = torch.tensor([[1.0, 2.0]], device="npu")
    assert (x.tolist(), x[0, 1].item(), bool(x.sum() > 2), len(x), [float(v) for v in x[0]]) == (
        [[1.0, 2.0]],
        2.0,
        True,
        1,
        [1.0, 2.0],
    )


def test_views_of_views_share_memory_and_version():
    base = torch.zeros(4, 6, device="npu")
    view = base.t()[1:3].unsqueeze(0).reshape(1, 2, 4)
    view.add_(1)
    assert base.sum().item() == 8
    assert base._version == view._version == 1
    base.view(-1)[0] = 5
    assert base[0, 0].item() == 5
    assert view._base is base
    assert view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()


def test_in_place_changes_of_geometry():
    x = torch.arange(6.0, device="npu").view(2, 3)
    x.t_()
    x.unsqueeze_(0)
    assert same(torch.arange(6.0).view(2, 3).t().unsqueeze(0), x)
    x.squeeze_()
    x.transpose_(0, 1)
    assert same(torch.arange(6.0).view(2, 3), x)


def test_autograd_notices_that_a_saved_tensor_was_changed():
    x = torch.ones(2, device="npu", requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("shape", [(2, 3), (0,)])
def test_out_is_written(shape):
    x = torch.arange(6.0).view(2, 3)
    out = torch.empty(shape, device="npu")
    assert torch.add(x.npu(), 1, out=out) is out
    assert same(x + 1, out)


@pytest.mark.parametrize("shape", [(5,), (100,), (1, 1)])
def test_out_of_another_shape_is_resized_with_pytorchs_warning(shape):
    x = torch.arange(4.0).view(2, 2)
    out = torch.empty(shape, device="npu")
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        torch.mm(x.npu(), x.npu(), out=out)
    assert same(x @ x, out)


def test_several_outs_and_a_strided_out():
    x = torch.tensor([[1.0, 5.0, 2.0]], device="npu")
    values, indices = torch.empty(0, device="npu"), torch.empty(0, dtype=torch.long, device="npu")
    torch.max(x, 1, out=(values, indices))
    assert (values.tolist(), indices.tolist()) == ([5.0], [1])
    rows = torch.zeros(4, 3, device="npu")
    torch.mul(x[0], 2, out=rows[1])
    assert rows[1].tolist() == [2.0, 10.0, 4.0]


def test_resize_keeps_the_beginning():
    x = torch.tensor([1.0, 2.0, 3.0], device="npu")
    assert x.resize_(2).tolist() == [1.0, 2.0]
    x.resize_(50)
    assert (x[:3].tolist(), tuple(x.shape)) == ([1.0, 2.0, 3.0], (50,))


def test_set_and_data_repoint_a_tensor():
    x, y = torch.zeros(2, device="npu"), torch.ones(3, device="npu")
    x.set_(y)
    x.add_(1)
    assert y.tolist() == [2, 2, 2]
    parameter = nn.Parameter(torch.zeros(2, device="npu"))
    parameter.data = y
    parameter.data.mul_(2)
    assert (y.tolist(), parameter.tolist()) == ([4, 4, 4], [4, 4, 4])
    assert tuple(x.set_().shape) == (0,)


def test_a_result_outlives_a_tensor_that_was_repointed():
    x = torch.ones(1000, device="npu")
    view = x[1:]
    alias = torch.ops.aten._unsafe_view(x, [10, 100])
    x.set_(torch.zeros(1, device="npu"))
    gc.collect()
    filler = [torch.full((1000,), 7.0) for _ in range(5)]
    assert (view.sum().item(), alias.sum().item(), len(filler)) == (999, 1000, 5)


def test_lazy_conjugation_and_negation():
    x = torch.tensor([1 + 2j, 3 - 1j])
    y = x.npu()
    assert same(x.conj() @ x, y.conj() @ y)
    assert same(x.conj().imag, y.conj().imag)
    assert same(torch.view_as_real(x), torch.view_as_real(y))
    assert same(x.conj().clone(), y.conj().cpu().npu())


def test_numbers_promote_as_on_the_cpu():
    for x in (torch.tensor(1, dtype=torch.int32), torch.tensor([1.0]), torch.tensor(True)):
        for number in (2, 2.5, True, 1j):
            assert (x + number).dtype == (x.npu() + number).dtype
            assert (number * x).dtype == (number * x.npu()).dtype
    zero = torch.tensor([1.0], device="npu")
    assert torch.copysign(zero, -0.0).item() == -1.0
    assert torch.copysign(zero, 0.0).item() == 1.0


def test_indexing():
    x = torch.arange(12.0).view(3, 4)
    y = x.npu()
    cases = [
        lambda t: t[t > 5],
        lambda t: t[torch.tensor([2, 0])],
        lambda t: t[torch.tensor([2, 0]).to(t.device)],
        lambda t: t[:, torch.tensor([True, False, True, False])],
        lambda t: t[None, ..., 1:3],
        lambda t: t.index_select(1, torch.tensor([1, 3], device=t.device)),
        lambda t: torch.where(t > 3, t, -1.0),
    ]
    for case in cases:
        assert same(case(x), case(y))
    x[x > 5] = 0.0
    y[y > 5] = 0.0
    y[torch.tensor([0])] = 9.0
    x[torch.tensor([0])] = 9.0
    assert same(x, y)


def test_deepcopy_pickle_and_copy():
    x = torch.arange(6.0, device="npu").view(2, 3)
    x.note = "kept"
    for made in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert same(x.cpu(), made)
        assert made.data_ptr() != x.data_ptr()
        assert made.note == "kept"
    module = nn.Linear(3, 2).npu()
    clone = copy.deepcopy(module)
    clone.weight.data.zero_()
    assert module.weight.abs().sum().item() > 0
    assert clone.weight.device.type == "npu"


def test_deepcopy_keeps_sharing():
    base = torch.zeros(4, device="npu")
    first, second = copy.deepcopy([base[:2], base[1:]])
    first.add_(1)
    assert second.tolist() == [1, 0, 0]


def checkpoint(value: object) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize(
    ("where", "device"),
    [
        (None, "npu"),
        ("npu", "npu"),
        ("npu:0", "npu"),
        (torch.device("npu"), "npu"),
        ("cpu", "cpu"),
        ({"npu:0": "cpu"}, "cpu"),
        (lambda storage, location: storage, "cpu"),
        (lambda storage, location: storage.npu() if hasattr(storage, "npu") else None, "npu"),
    ],
)
@pytest.mark.parametrize("weights_only", [True, False])
def test_checkpoints_load_where_they_are_asked_to(where, device, weights_only):
    x = torch.arange(4.0, device="npu")
    loaded = torch.load(checkpoint({"x": x, "view": x[2:]}), map_location=where, weights_only=weights_only)
    assert (loaded["x"].device.type, loaded["x"].tolist()) == (device, [0, 1, 2, 3])
    loaded["x"].zero_()
    assert loaded["view"].tolist() == [0, 0]


def test_a_cpu_checkpoint_loads_on_the_npu_with_an_optimizers_state():
    model = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    data = torch.load(checkpoint([model.state_dict(), optimizer.state_dict()]), map_location="npu", weights_only=True)
    target = nn.Linear(3, 2).npu()
    target_optimizer = torch.optim.Adam(target.parameters())
    target.load_state_dict(data[0])
    target_optimizer.load_state_dict(data[1])
    assert same(model.weight.detach(), target.weight.detach())
    assert target_optimizer.state[target.weight]["exp_avg"].device.type == "npu"


def test_storages():
    x = torch.arange(3.0, device="npu")
    storage = x.untyped_storage()
    assert (storage.device.type, storage.nbytes(), storage.cpu().device.type) == ("npu", 12, "cpu")
    made = torch.UntypedStorage(8, device="npu")
    assert (made.nbytes(), made.device) == (8, torch.device("npu:0"))
    storage.resize_(0)
    assert (storage.nbytes(), x.shape) == (0, (3,))


def test_an_operator_nobody_has_is_named():
    with pytest.raises(NotImplementedError, match="Could not run 'aten::_cudnn_init_dropout_state'"):
        torch.ops.aten._cudnn_init_dropout_state(0.5, True, 1, dtype=torch.uint8, device=torch.device("npu"))


def test_operators_of_other_libraries_run_on_their_cpu_kernel():
    library = torch.library.Library("jumar_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    assert same(torch.tensor([2.0]), torch.ops.jumar_test.twice(torch.tensor([1.0], device="npu")))


def test_inference_mode_and_function_transforms():
    x = torch.arange(3.0, device="npu")
    with torch.inference_mode():
        y = (x * 2).add_(1)
    assert (y.is_inference(), y.tolist()) == (True, [1, 3, 5])
    assert same(torch.arange(3.0) * 2, torch.vmap(lambda v: v * 2)(x))
    assert same(torch.arange(3.0) * 2, torch.func.grad(lambda v: (v**2).sum())(x))


def test_default_device_and_device_contexts():
    torch.set_default_device("npu")
    try:
        assert (torch.ones(2) + torch.tensor([1, 2])).device.type == "npu"
        assert nn.Linear(2, 2).weight.device.type == "npu"
    finally:
        torch.set_default_device(None)
    with torch.device("npu"):
        assert torch.zeros(1).device.type == "npu"
    assert torch.zeros(1).device.type == "cpu"


def test_nothing_warns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = torch.randn(4, 4, device="npu", requires_grad=True)
        (x @ x).relu().sum().backward()
        x.grad.zero_()


def test_data_takes_tensors_with_lazy_conjugation_and_sparse_ones():
    x, conjugated = torch.ones(2, dtype=torch.complex64).npu(), torch.tensor([1 + 2j, 3j]).npu().conj()
    x.data = conjugated
    assert (x.is_conj(), (x + 0).tolist()) == (True, [1 - 2j, -3j])
    sparse = torch.eye(2).to_sparse().npu()
    sparse.data = (torch.eye(2) * 3).to_sparse().npu()
    assert sparse.to_dense().diagonal().tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        x.data = sparse


def test_an_empty_tensor_keeps_its_strides_when_its_memory_is_taken():
    for device in ("cpu", "npu"):
        x = torch.empty(4, 0, device=device).diagonal()
        stride = x.stride()
        assert (x.set_().stride(), x.untyped_storage().nbytes()) == (stride, 0)
