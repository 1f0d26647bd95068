"""The vendor's functions about formats."""

from __future__ import annotations

import copy
import gc

import pytest
import torch
from torch import nn

from jumar.device import DevicePlan, activate, emulate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

from jumar.npu.formats import Format, get_npu_format, get_storage_size  # noqa: E402
from jumar.npu.formats.ledger import ledger  # noqa: E402  # the ledger needs the device

npu = torch.ops.npu


@pytest.fixture(autouse=True)
def first_generation():
    with emulate("Ascend910A", numerics="exact", unsupported="fallback"):
        yield


def test_a_tensor_nobody_has_cast_has_the_format_of_its_rank():
    found = [str(get_npu_format(torch.ones([2] * rank, device="npu"))) for rank in range(6)]
    assert found == ["ND", "ND", "ND", "ND", "NCHW", "NCDHW"]


def test_a_cast_changes_the_format_and_no_value():
    x = torch.randn(2, 5, 3, 3).npu()
    y = npu.npu_format_cast(x, 3)
    assert (get_npu_format(x), get_npu_format(y)) == (Format.NCHW, Format.NC1HWC0)
    assert (get_storage_size(y), npu.get_npu_format(y)) == (2 * 16 * 9, 3)
    assert torch.equal(x.cpu(), y.cpu())


def test_a_cast_in_place_keeps_the_memory():
    x = torch.randn(20, 20).npu()
    pointer = x.data_ptr()
    assert npu.npu_format_cast_(x, 29) is x
    assert (x.data_ptr(), get_npu_format(x), get_storage_size(x)) == (pointer, Format.FRACTAL_NZ, 2 * 2 * 256)
    npu.npu_format_cast_(x, 2)
    assert get_npu_format(x) is Format.ND


def test_a_cast_to_the_format_it_has_returns_the_tensor_itself():
    x = torch.ones(2, 3, 4, 4, device="npu")
    assert npu.npu_format_cast(x, 0) is x
    y = npu.npu_format_cast(x, 3)
    assert npu.npu_format_cast(y, 3) is y


def test_a_cast_takes_another_tensors_format():
    x, like = torch.ones(2, 3, 4, 4, device="npu"), torch.ones(1, 3, 2, 2, device="npu").npu_format_cast(3)
    assert get_npu_format(x.npu_format_cast(like)) is Format.NC1HWC0
    like.npu_format_cast_(torch.zeros(1, 3, 2, 2, device="npu"))
    assert (get_npu_format(like), like.sum().item()) == (Format.NC1HWC0, 0)


def test_the_gradient_of_a_cast_is_the_gradient():
    x = torch.randn(2, 3, 4, 4, device="npu", requires_grad=True)
    (npu.npu_format_cast(x, 3) * 2).sum().backward()
    assert torch.equal(x.grad.cpu(), torch.full((2, 3, 4, 4), 2.0))


def test_views_share_the_format_of_their_memory():
    x = torch.ones(2, 16, 4, 4, device="npu").npu_format_cast(3)
    assert [get_npu_format(view) for view in (x[0], x.view(2, -1), x.transpose(0, 1))] == [Format.NC1HWC0] * 3
    dense = x[:, 3:5].npu_format_cast(0)
    assert (get_npu_format(dense), dense.shape, dense._base is not None) == (Format.NCHW, (2, 2, 4, 4), True)


def test_assigning_data_takes_the_format_along():
    gradient = torch.ones(2, 16, 4, 4, device="npu").npu_format_cast(3)
    gradient.data = gradient.data.npu_format_cast(0)
    assert get_npu_format(gradient) is Format.NCHW


def test_a_deep_copy_keeps_the_format():
    x = npu.npu_format_cast(torch.rand(3, 3).npu(), 29)
    y, plain = copy.deepcopy((x, torch.rand(3, 3).npu()))
    assert (get_npu_format(y), get_npu_format(plain), y.data_ptr() == x.data_ptr()) == (29, Format.ND, False)
    assert torch.equal(x.cpu(), y.cpu())


def test_padding_counts_as_memory_until_the_tensor_goes():
    gc.collect()
    before = torch.npu.memory_allocated()
    x = torch.ones(64, 1, 32, 32, device="npu")
    dense = torch.npu.memory_allocated() - before
    x.npu_format_cast_(3)
    padded = torch.npu.memory_allocated() - before
    del x
    assert (padded - dense, torch.npu.memory_allocated() - before) == (64 * 4096 * 15, 0)


def test_padding_that_does_not_fit_is_out_of_memory():
    with emulate("Ascend910A", memory_bytes=40 * 2**20):
        x = torch.ones(1, 1, 1024, 1024, device="npu")
        with pytest.raises(torch.OutOfMemoryError):
            x.npu_format_cast_(3)
        assert get_npu_format(x) is Format.NCHW


def test_tensors_can_be_made_in_a_format():
    x = npu.empty_with_format([4, 40], dtype=torch.float16, device=torch.device("npu"), acl_format=29)
    assert (get_npu_format(x), x.shape, x.dtype, x.device.type) == (Format.FRACTAL_NZ, (4, 40), torch.float16, "npu")
    with pytest.raises(RuntimeError, match="Expected NPU tensor"):
        npu.empty_with_format([4, 40], device=torch.device("cpu"), acl_format=29)


def test_a_vector_in_nz_becomes_nd_with_a_warning():
    with pytest.warns(UserWarning, match="Cannot create tensor with NZ format while dim < 2"):
        assert get_npu_format(torch.ones(40, device="npu").npu_format_cast(29)) is Format.ND


def test_formats_that_are_not_allowed_become_dense_with_a_warning():
    with emulate("Ascend910B1"):
        x = torch.ones(2, 3, 4, 4, device="npu")
        with pytest.warns(UserWarning, match="allow_internal_format=False"):
            assert get_npu_format(x.npu_format_cast(3)) is Format.NCHW
        torch.npu.set_option({"ALLOW_INTERNAL_FORMAT": "enable"})
        assert get_npu_format(x.npu_format_cast(3)) is Format.NC1HWC0


def test_wrong_formats_and_devices_are_errors():
    x = torch.ones(2, 3, 4, 4, device="npu")
    with pytest.raises(RuntimeError, match="unknown format type: 7"):
        x.npu_format_cast(7)
    with pytest.raises(RuntimeError, match="cannot convert to NDC1HWC0"):
        x.npu_format_cast(32)
    with pytest.raises(RuntimeError, match="Expected NPU tensor"):
        get_npu_format(torch.ones(2))
    with pytest.raises(RuntimeError, match="customize_dtype is not supported by the current soc version"):
        npu.npu_format_cast(x, 3, customize_dtype=1)


def test_memory_can_be_copied_as_it_lies():
    x, y = torch.zeros(2, 3, device="npu"), torch.ones(2, 3, device="npu")
    assert npu.copy_memory_(x, y).tolist() == [[1, 1, 1]] * 2
    with pytest.raises(RuntimeError, match="should have same dtype"):
        x.copy_memory_(y.half())


def test_a_module_that_moves_gets_the_formats_its_kernels_read():
    module = nn.Sequential(
        nn.Conv2d(3, 20, 3), nn.BatchNorm2d(20), nn.Conv2d(20, 20, 3, groups=20), nn.Linear(5, 5)
    ).npu()
    found = {name: str(get_npu_format(tensor)) for name, tensor in module.state_dict().items()}
    assert found == {
        "0.weight": "FRACTAL_Z",
        "0.bias": "ND",
        "1.weight": "NC1HWC0",
        "1.bias": "NC1HWC0",
        "1.running_mean": "NC1HWC0",
        "1.running_var": "NC1HWC0",
        "1.num_batches_tracked": "ND",
        "2.weight": "NCHW",
        "2.bias": "ND",
        "3.weight": "ND",
        "3.bias": "ND",
    }


def test_linear_weights_are_cast_where_matrix_products_are_not_kept_dense():
    torch.npu.set_option({"MM_BMM_ND_ENABLE": "disable"})
    assert get_npu_format(nn.Linear(5, 5).to("npu").weight) is Format.FRACTAL_NZ


def test_without_online_compilation_weights_stay_dense():
    torch.npu.set_compile_mode(jit_compile=False)
    assert get_npu_format(nn.Conv2d(3, 4, 1).npu().weight) is Format.NCHW


def test_casts_that_a_program_asks_for_are_counted():
    x = torch.ones(2, 3, 4, 4, device="npu")
    ledger.reset_counts()
    y = x.npu_format_cast(3)
    y.npu_format_cast_(0)
    y.npu_format_cast(0)
    assert ledger.counts().transdata_by_operator == {
        "npu::npu_format_cast": 1,
        "npu::npu_format_cast_.acl_format": 1,
    }
