"""Shapes, slices, casts and fills against PyTorch's."""

from __future__ import annotations

import pytest
import torch
from custom_reference import leaf, on_npu, same
from torch._subclasses.fake_tensor import FakeTensorMode

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))
npu = torch.ops.npu


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8, torch.bool])
def test_transpose_and_broadcast_give_contiguous_copies(dtype):
    x = torch.arange(24).reshape(2, 3, 4).to(dtype)
    turned = npu.npu_transpose(x.npu(), [2, 0, 1])
    assert turned.is_contiguous()
    assert torch.equal(turned.cpu(), x.permute(2, 0, 1))
    wide = npu.npu_broadcast(x[:, :1].npu(), [5, 2, 3, 4])
    assert wide.is_contiguous()
    assert torch.equal(wide.cpu(), x[:, :1].expand(5, 2, 3, 4))


def test_out_overloads_write_where_they_are_told():
    x = torch.randn(2, 3).npu()
    for operator, arguments, shape in (
        (npu.npu_transpose, ([1, 0],), (3, 2)), (npu.npu_broadcast, ([4, 2, 3],), (4, 2, 3)),
        (npu.npu_reshape, ([6],), (6,)), (npu.npu_slice, ([0, 1], [2, 2]), (2, 2)),
        (npu.npu_indexing, ([0, 0], [2, 3], [1, 2]), (2, 2)), (npu.npu_sort_v2, (), (2, 3)),
        (npu.npu_stride_copy, ([2], [3], 0), (2,)),
    ):  # fmt: skip
        out = torch.empty(shape, device="npu")
        assert operator(x, *arguments, out=out) is out
        assert torch.equal(out.cpu(), operator(x, *arguments).cpu())
    out = torch.empty(3, 2, device="npu")
    npu.npu_transpose_trans_contiguous(x, [1, 0], out=out)
    assert torch.equal(out.cpu(), x.cpu().t())


@pytest.mark.parametrize(
    ("perm", "shape", "first"),
    [((0, 2, 1, 3), (2, 4, 18), True), ((0, 2, 1), (2, 12, 6), False), ((1, 0), (24, 6), False)],
)
def test_confusion_transpose_and_its_gradient(perm, shape, first):
    def reference(x):
        return x.permute(perm).reshape(shape) if first else x.reshape(shape).permute(perm)

    same(lambda x: npu.npu_confusion_transpose(x, perm, shape, first), reference, leaf(2, 3, 4, 6))


def test_reshape_copies():
    x = torch.randn(2, 8).npu()
    found = npu.npu_reshape(x, [4, 4])
    assert torch.equal(found.cpu(), x.cpu().reshape(4, 4))
    assert found.data_ptr() != x.data_ptr()
    with pytest.raises(NotImplementedError, match="can_refresh"):
        npu.npu_reshape(x, [4, 4], True)


def test_slices_pads_and_strided_indices():
    x = torch.arange(60).reshape(3, 4, 5)
    assert torch.equal(npu.npu_slice(x.npu(), [1, 0, 2], [2, 4, 3]).cpu(), x[1:, :, 2:])
    assert torch.equal(npu.npu_indexing(x.npu(), [0, 1, 0], [3, 4, 5], [2, 1, 3]).cpu(), x[::2, 1:4, ::3])
    padded = npu.npu_pad(x.npu(), [1, 2, 3, 4])
    assert torch.equal(padded.cpu(), torch.nn.functional.pad(x, [0, 0, 3, 4, 1, 2]))
    assert npu.npu_pad(x.npu(), [1]).shape == (4, 4, 5)


@pytest.mark.parametrize(
    ("begin", "end", "strides"), [([0, 0], [2, 9], [1, 1]), ([-1, 0], [2, 2], [1, 1]), ([0], [1], [1])]
)
def test_indices_outside_of_the_tensor_are_refused(begin, end, strides):
    with pytest.raises(RuntimeError, match="npu_indexing"):
        npu.npu_indexing(torch.ones(2, 3).npu(), begin, end, strides)


def test_masks_of_indexing_are_refused():
    with pytest.raises(NotImplementedError, match="index the tensor instead"):
        npu.npu_indexing(torch.ones(2, 3).npu(), [0, 0], [2, 3], [1, 1], 1)


def test_stride_copy_is_a_strided_view_copied():
    x = torch.randn(32, 8, 2)
    assert torch.equal(npu.npu_stride_copy(x.npu(), [8, 6, 2], [5, 4, 1], 0).cpu(), x.as_strided((8, 6, 2), (5, 4, 1)))


def test_one_hot_has_no_place_for_numbers_outside():
    found = npu.npu_one_hot(torch.tensor([5, 3, 2, 1, -1], dtype=torch.int32).npu(), -1, 5, 2, -1)
    expected = torch.full((5, 5), -1.0)
    for row, place in ((1, 3), (2, 2), (3, 1)):
        expected[row, place] = 2
    assert torch.equal(found.cpu(), expected)
    assert found.dtype == torch.float32


def test_reverse_and_ones_and_view_copies():
    x = torch.arange(6).reshape(2, 3)
    assert torch.equal(npu.reverse(x.npu(), [1]).cpu(), x.flip(1))
    there = x.npu()
    assert npu.one_(there) is there
    assert there.cpu().eq(1).all()
    base = torch.zeros(3, 4).npu()
    npu.npu_view_copy(base[:, 1:3], torch.ones(3, 2).npu(), False)
    assert base.cpu().sum(0).tolist() == [0, 3, 3, 0]


@pytest.mark.parametrize("operator", [npu.npu_dtype_cast, npu._npu_dtype_cast])
def test_casts_and_their_gradients(operator):
    x = torch.tensor([0, 0.5, -1.75]).npu().requires_grad_()
    half = operator(x, torch.float16)
    assert half.dtype == torch.float16
    half.backward(torch.ones(3, dtype=torch.float16, device="npu"))
    assert x.grad.dtype == torch.float32
    whole = operator(x.detach(), torch.int32)
    assert whole.cpu().tolist() == [0, 0, -1]
    assert whole.dtype == torch.int32
    assert operator(x.detach(), torch.float32).data_ptr() != x.data_ptr()


def test_a_cast_into_a_tensor_of_the_same_dtype_writes_nothing():
    into = torch.zeros(2).npu()
    npu.npu_dtype_cast_(into, torch.ones(2).npu())
    assert into.cpu().tolist() == [0, 0]
    npu.npu_dtype_cast_(into, torch.ones(2, dtype=torch.int32).npu())
    assert into.cpu().tolist() == [1, 1]


def test_shapes_are_known_to_fake_tensors():
    with FakeTensorMode():
        x = torch.empty(2, 3, 4, device="npu")
        assert npu.npu_confusion_transpose(x, (0, 2, 1), (2, 4, 3), True).shape == (2, 4, 3)
        assert npu.npu_dtype_cast(x, torch.float16).dtype == torch.float16
        assert npu.npu_max(x, 1)[1].dtype == torch.int32
        assert npu.npu_one_hot(torch.empty(3, dtype=torch.int32, device="npu"), -1, 5).shape == (3, 5)
    assert on_npu(leaf(1)).requires_grad
