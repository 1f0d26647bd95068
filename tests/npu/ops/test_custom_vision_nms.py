"""Suppression of boxes against plain Python, with ties, empty sets and limits."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))
npu = torch.ops.npu


def iou_of(a, b):
    overlap = max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - overlap
    return overlap / union if union else 0.0


def taken(boxes, scores, threshold, floor=float("-inf"), limit=10**9):
    order = [i for i in sorted(range(len(scores)), key=lambda i: -scores[i]) if scores[i] > floor]
    found = []
    for i in order:
        if len(found) < limit and all(iou_of(boxes[i], boxes[j]) <= threshold for j in found):
            found.append(i)
    return found


def case(num, seed=0):
    generator = torch.Generator().manual_seed(seed)
    first = torch.randint(0, 12, (num, 2), generator=generator).float()
    boxes = torch.cat([first, first + torch.randint(1, 8, (num, 2), generator=generator)], 1)
    scores = torch.randint(0, 10, (num,), generator=generator).float() / 10
    return boxes, scores


@pytest.mark.parametrize("num", [0, 1, 30])
@pytest.mark.parametrize("limit", [1, 5, 40])
def test_nms_v4_takes_the_best_boxes_in_order(num, limit):
    boxes, scores = case(num)
    expected = taken(boxes.tolist(), scores.tolist(), 0.3, 0.2, limit)
    flipped = boxes[:, [2, 1, 0, 3]]
    for value in (boxes, flipped):
        indices, count = npu.npu_nms_v4(
            value.npu(), scores.npu(), limit, torch.tensor(0.3).npu(), torch.tensor(0.2).npu()
        )
        assert count.item() == len(expected)
        assert indices.cpu().tolist() == expected + [0] * (limit - len(expected))
        assert (indices.dtype, count.dtype, count.dim()) == (torch.int32, torch.int32, 0)


@pytest.mark.parametrize("num", [0, 1, 30])
@pytest.mark.parametrize("columns", [5, 8])
def test_nms_with_mask_marks_the_boxes_taken(num, columns):
    boxes, scores = case(num)
    order = scores.argsort(descending=True, stable=True)
    rows = torch.cat([boxes[order], scores[order, None], torch.rand(num, columns - 5)], 1)
    selected, indices, mask = npu.npu_nms_with_mask(rows.npu(), 0.3)
    expected = taken(boxes[order].tolist(), scores[order].tolist(), 0.3)
    assert torch.equal(selected.cpu(), rows[:, :5])
    assert indices.cpu().tolist() == list(range(num))
    assert mask.cpu().nonzero().flatten().tolist() == sorted(expected)
    assert mask.dtype == torch.uint8


def test_nms_with_mask_refuses_scores_that_rise():
    rows = torch.tensor([[0.0, 0, 1, 1, 0.1], [0, 0, 1, 1, 0.9]])
    with pytest.raises(NotImplementedError, match="sort them first"):
        npu.npu_nms_with_mask(rows.npu(), 0.5)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("transposed", [True, False])
def test_batch_nms_suppresses_by_class_then_takes_the_best(shared, transposed):
    num_classes, total, per_class = 3, 7, 4
    boxes = torch.stack([torch.stack([case(20, 10 * b + q)[0] for q in range(1 if shared else num_classes)], 1)
                         for b in range(2)])  # fmt: skip
    scores = torch.stack([torch.stack([case(20, 50 + 10 * b + c)[1] for c in range(num_classes)], 1) for b in range(2)])
    scores += torch.arange(20 * num_classes).reshape(20, num_classes) * 1e-4
    given = boxes.permute(0, 2, 3, 1) if transposed else boxes
    found = npu.npu_batch_nms(given.npu(), scores.npu(), 0.15, 0.4, per_class, total, False, transposed)
    out_boxes, out_scores, out_classes, counts = (item.cpu() for item in found)
    for b in range(2):
        expected = []
        for c in range(num_classes):
            own = boxes[b, :, 0 if shared else c].tolist()
            values = scores[b, :, c].tolist()
            expected += [(values[i], c, own[i]) for i in taken(own, values, 0.4, 0.15, per_class)]
        expected = sorted(expected, key=lambda item: -item[0])[:total]
        assert counts[b] == len(expected)
        rest = total - len(expected)
        assert out_scores[b].tolist() == pytest.approx([e[0] for e in expected] + [0] * rest)
        assert out_classes[b].tolist() == [e[1] for e in expected] + [0] * rest
        assert out_boxes[b].tolist() == [e[2] for e in expected] + [[0] * 4] * rest


def test_batch_nms_finds_nothing_below_the_score():
    boxes, scores = torch.tensor([[[[0.0, 0, 1, 1]]]]), torch.zeros(1, 1, 1)
    assert npu.npu_batch_nms(boxes.npu(), scores.npu(), 0.5, 0.5, 3, 4)[3].item() == 0


def test_batch_nms_refuses_a_frame_it_has_not():
    with pytest.raises(NotImplementedError, match="window"):
        npu.npu_batch_nms(torch.ones(1, 1, 1, 4).npu(), torch.ones(1, 1, 1).npu(), 0.3, 0.5, 3, 4, True)


PUBLISHED = [
    [1038.2, 316.57, 1155.6, 443.03], [1150.3, 305.98, 1260.2, 434.56], [1150.8, 306.52, 1260.7, 434.72],
    [1151.8, 307.81, 1262.2, 434.48], [1174.8, 302.02, 1285.9, 439.15], [1171.1, 304.8, 1286.8, 435.51],
    [1167.3, 306.75, 1288.9, 431.94], [1274.1, 301.81, 1382.3, 430.36], [1274.1, 302.86, 1383.6, 429.4],
    [1273.3, 303.82, 1385.5, 428.46], [1293.5, 305.17, 1396.1, 431.37], [1407.6, 321.73, 1493.0, 427.14],
    [1409.7, 324.96, 1493.4, 426.51], [1409.7, 325.69, 1493.5, 426.32], [1027.9, 318.83, 1141.2, 446.46],
    [1027.5, 317.76, 1140.8, 446.41], [1028.9, 316.94, 1140.7, 445.1], [1037.2, 312.33, 1147.7, 445.21],
    [1037.0, 315.64, 1148.7, 443.17], [1036.7, 316.82, 1151.0, 440.2],
]  # fmt: skip
ANGLES = [2.3674, 0.32729, 0.51713, 0.39718, 1.8112, 2.1171, 2.5968, 2.0379, 2.2072, 2.0921, 2.9583, 2.6099, 3.0967,
          2.5553, 1.203, 1.2732, 0.94897, 1.4125, 1.6109, 1.4112]  # fmt: skip
SCORES = [0.9910, 0.9854, 0.9972, 0.9930, 0.4282, 0.5092, 0.6532, 0.9965, 0.9989, 0.9976, 0.3144, 0.9874, 0.9980,
          0.9967, 0.9698, 0.9824, 0.9474, 0.9856, 0.9964, 0.9926]  # fmt: skip


def test_the_published_rotated_boxes_are_taken():
    boxes = torch.cat([torch.tensor(PUBLISHED), torch.tensor(ANGLES)[:, None]], 1)
    indices, count = npu.npu_nms_rotated(boxes.npu(), torch.tensor(SCORES).npu(), 0.2, 0, -1, 1)
    assert indices.cpu().tolist() == [8, 12, 2, 18]
    assert count.cpu().tolist() == [4]


@pytest.mark.parametrize("num", [0, 1, 30])
def test_boxes_turned_by_nothing_are_taken_as_straight_ones(num):
    boxes, scores = case(num)
    centred = torch.cat([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2], torch.zeros(num, 1)], 1)
    expected = taken(boxes.tolist(), scores.tolist(), 0.31, 0.05)
    indices, _ = npu.npu_nms_rotated(centred.npu(), scores.npu(), 0.31, 0.05)
    assert indices.cpu().tolist() == expected
    assert npu.npu_nms_rotated(centred.npu(), scores.npu(), 0.31, 0.05, 2)[0].cpu().tolist() == expected[:2]


def test_fixed_shapes_are_known_to_fake_tensors():
    with FakeTensorMode():
        boxes, scores, zero = (torch.empty(shape, device="npu") for shape in ((9, 4), (9,), ()))
        assert npu.npu_nms_v4(boxes, scores, 6, zero, zero)[0].shape == (6,)
        assert npu.npu_nms_with_mask(torch.empty(9, 8, device="npu"), 0.5)[0].shape == (9, 5)
        found = npu.npu_batch_nms(torch.empty(2, 9, 1, 4, device="npu"), torch.empty(2, 9, 3, device="npu"), 0, 0, 3, 4)
        assert [tuple(item.shape) for item in found] == [(2, 4, 4), (2, 4), (2, 4), (2,)]


def test_rotated_boxes_with_a_negative_side_have_no_area_and_with_two_are_the_same_box():
    boxes = torch.tensor([[0, 0, 4, 2, 30.0], [0, 0, -4, -2, 30.0], [0, 0, -4, 2, 30.0]])
    found, num = torch.ops.npu.npu_nms_rotated(boxes.npu(), torch.tensor([3.0, 2.0, 1.0]).npu(), 0.5)
    assert found.tolist()[: num.item()] == [0, 2]


def test_corner_boxes_are_turned_the_other_way():
    turned = torch.tensor([[-4.0, -1.0, 4.0, 1.0, 40.0], [2.0, -5.0, 4.0, -1.0, 0.0]])
    centred = torch.tensor([[0.0, 0.0, 8.0, 2.0, -40.0], [3.0, -3.0, 2.0, 4.0, 0.0]])
    scores = torch.tensor([2.0, 1.0])
    one = torch.ops.npu.npu_nms_rotated(turned.npu(), scores.npu(), 0.05, mode=1)[1]
    other = torch.ops.npu.npu_nms_rotated(centred.npu(), scores.npu(), 0.05, mode=0)[1]
    assert one.item() == other.item() == 1
