"""Coding of boxes and the choice of anchors and samples, against plain Python and the vendor's published values."""

from __future__ import annotations

import math

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))
npu = torch.ops.npu


def corner_boxes(num, seed, scale=40.0):
    generator = torch.Generator().manual_seed(seed)
    first = torch.rand(num, 2, generator=generator) * scale
    return torch.cat([first, first + torch.rand(num, 2, generator=generator) * scale + 1], 1)


MEANS, DEVIATIONS = (0.1, -0.2, 0.0, 0.3), (0.1, 0.1, 0.2, 0.4)


@pytest.mark.parametrize("num", [0, 1, 9])
def test_encoding_gives_the_offsets_of_faster_rcnn(num):
    anchors, gt = corner_boxes(num, 0), corner_boxes(num, 1)
    actual = npu.npu_bounding_box_encode(anchors.npu(), gt.npu(), *MEANS, *DEVIATIONS).cpu()
    assert actual.shape == (num, 4)
    for row, a, g in zip(actual.tolist(), anchors.tolist(), gt.tolist(), strict=True):
        expected = []
        for i in (0, 1):
            expected.append(((g[i] + g[i + 2]) / 2 - (a[i] + a[i + 2]) / 2) / (a[i + 2] - a[i] + 1))
        for i in (0, 1):
            expected.append(math.log((g[i + 2] - g[i] + 1) / (a[i + 2] - a[i] + 1)))
        expected = [(e - m) / d for e, m, d in zip(expected, MEANS, DEVIATIONS, strict=True)]
        assert row == pytest.approx(expected, rel=2e-3, abs=1e-2)  # rounded to float16


def test_decoding_is_the_inverse_of_encoding():
    anchors, gt = corner_boxes(9, 0), corner_boxes(9, 1)
    offsets = npu.npu_bounding_box_encode(anchors.npu(), gt.npu(), *MEANS, *DEVIATIONS)
    again = npu.npu_bounding_box_decode(anchors.npu(), offsets, *MEANS, *DEVIATIONS, [1000, 1000], 1e-3)
    torch.testing.assert_close(again.cpu(), gt, rtol=2e-3, atol=0.1)


def test_the_documented_examples_of_the_box_coder():
    first = torch.tensor([[1.0, 2, 3, 4], [3, 4, 5, 6]]).npu()
    deltas = torch.tensor([[5.0, 6, 7, 8], [7, 8, 9, 6]]).npu()
    decoded = npu.npu_bounding_box_decode(first, deltas, 0, 0, 0, 0, 1, 1, 1, 1, [10, 10], 0.1)
    assert decoded.cpu().tolist() == [[pytest.approx(2.5, abs=1e-5), 6.5, 9, 9], [9, 9, 9, 9]]
    encoded = npu.npu_bounding_box_encode(first, deltas, 0, 0, 0, 0, 0.1, 0.1, 0.2, 0.2).cpu()
    assert encoded[:, :3].tolist() == [[13.328125, 13.328125, 0], [13.328125, 6.6640625, 0]]
    assert encoded[1, 3].isnan()


def test_decoded_boxes_stay_within_the_image():
    boxes = npu.npu_bounding_box_decode(
        corner_boxes(50, 3).npu(), torch.randn(50, 4).npu() * 3, 0, 0, 0, 0, 1, 1, 1, 1, [30, 20], 0.016
    ).cpu()
    assert boxes.min() >= 0
    assert boxes[:, ::2].max() <= 19
    assert boxes[:, 1::2].max() <= 29


def test_wrong_boxes_are_refused():
    with pytest.raises(RuntimeError, match=r"must be of shape \(n, 4\), but got \(2, 5\)"):
        npu.npu_bounding_box_encode(torch.ones(2, 5).npu(), torch.ones(2, 4).npu(), *MEANS, *DEVIATIONS)


def test_yolo_targets_are_the_published_ones():
    torch.manual_seed(1234)
    anchors, gt, stride = torch.rand(2, 4), torch.rand(2, 4), torch.tensor([2, 2], dtype=torch.int32)
    expected = [[0.7921727, 0.5314963, -0.74224466, -13.815511], [0.7360072, 0.58343244, 4.3334002, -0.51378196]]
    actual = npu.npu_yolo_boxes_encode(anchors.npu(), gt.npu(), stride.npu(), False)
    torch.testing.assert_close(actual.cpu(), torch.tensor(expected), rtol=1e-4, atol=1e-5)


def test_yolo_strides_must_be_int32():
    boxes = corner_boxes(2, 0).npu()
    with pytest.raises(RuntimeError, match="stride must be int32"):
        npu.npu_yolo_boxes_encode(boxes, boxes, torch.tensor([2, 2]).npu())


@pytest.mark.parametrize("num", [0, 1, 40])
def test_anchors_of_cells_with_a_centre_are_flagged(num):
    boxes = corner_boxes(num, 5, 60)
    actual = npu.npu_anchor_response_flags(boxes.npu(), [6, 9], [16, 8], 3).cpu()
    expected = torch.zeros(6 * 9 * 3, dtype=torch.uint8)
    for x1, y1, x2, y2 in boxes.tolist():
        column = min(max(math.floor((x1 + x2) / 2 / 16), 0), 8)
        row = min(max(math.floor((y1 + y2) / 2 / 8), 0), 5)
        expected[(row * 9 + column) * 3 :][:3] = 1
    assert torch.equal(actual, expected)


@pytest.mark.parametrize("assign_all", [True, False])
@pytest.mark.parametrize("num_gts", [0, 2, 4, 128])
def test_positive_boxes_are_assigned_as_by_the_grid_assigner(assign_all, num_gts):
    generator = torch.Generator().manual_seed(num_gts)
    overlaps = (torch.rand(4, 20, generator=generator) * 5).round() / 5
    flags = (torch.rand(20, generator=generator) > 0.4).to(torch.uint8)
    best, at = overlaps.max(0)
    gt_best, gt_at = overlaps.max(1)
    assigned = torch.where(best < 0.5, 0.0, -1.0)
    expected = assigned.clone()
    for i in range(20):
        if best[i] > 0.7 and flags[i]:
            expected[i] = at[i] + 1
    for g in range(min(num_gts, 4)):
        if gt_best[g] > 0.3:
            for i in range(20):
                if flags[i] and (overlaps[g, i] == gt_best[g] if assign_all else i == gt_at[g]):
                    expected[i] = g + 1
    actual = npu.npu_grid_assign_positive(
        *(t.npu() for t in (assigned, overlaps, flags, best, at.int(), gt_best, gt_at.int())),
        num_gts, 0.7, 0.3, assign_all,
    )  # fmt: skip
    assert torch.equal(actual.cpu(), expected)


@pytest.mark.parametrize("seed", range(5))
def test_sub_sampling_keeps_the_share_of_positives(seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(-1, 2, (10,), generator=generator, dtype=torch.int32)
    found = npu.npu_sub_sample(labels.npu(), 5, 0.6).cpu()
    positives = min((labels == 1).sum().item(), 3)
    assert (found == 1).sum() == positives
    assert (found == 0).sum() == min((labels == 0).sum().item(), 5 - positives)
    assert ((found == labels) | (found == -1)).all()


@pytest.mark.parametrize("shape", [(7,), (3, 4)])
def test_random_choice_gives_indices_of_true_elements(shape):
    x = torch.rand(shape) > 0.5
    x.view(-1)[0] = True
    num = x.sum().item()
    indices, valid = npu.npu_random_choice_with_mask(x.npu(), num + 2, 0, 0)
    assert (indices.dtype, indices.shape, valid.dtype) == (torch.int32, (num + 2, len(shape)), torch.bool)
    assert valid.cpu().tolist() == [True] * num + [False] * 2
    assert sorted(indices.cpu()[:num].tolist()) == x.nonzero().tolist()
    assert indices.cpu()[num:].eq(0).all()


def test_random_choice_with_a_seed_is_repeatable():
    x = torch.ones(100, dtype=torch.bool).npu()
    first, second = (npu.npu_random_choice_with_mask(x, 10, 3, 1)[0].cpu() for _ in range(2))
    assert torch.equal(first, second)


def test_shapes_are_known_to_fake_tensors():
    with FakeTensorMode():
        boxes = torch.empty(5, 4, device="npu")
        assert npu.npu_anchor_response_flags(boxes, [6, 9], [16, 8], 3).shape == (162,)
        assert npu.npu_sub_sample(torch.empty(5, dtype=torch.int32, device="npu"), 2, 0.5).shape == (5,)
