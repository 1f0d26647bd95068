"""Rotated boxes against clipping in plain Python, and the vendor's published values."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from jumar.device import DevicePlan, activate
from jumar.npu.ops.helpers.polygons import intersection_area

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))
npu = torch.ops.npu


def outline(box):
    x, y, w, h, angle = box
    c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    return [(x + dx * w * c - dy * h * s, y + dx * w * s + dy * h * c)
            for dx, dy in ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))]  # fmt: skip


def clipped_area(subject, clip):
    """Sutherland and Hodgman's clipping, then the shoelace formula."""
    points = subject
    for (ax, ay), (bx, by) in zip(clip, clip[1:] + clip[:1], strict=True):

        def side(p, ax=ax, ay=ay, bx=bx, by=by):
            return (bx - ax) * (p[1] - ay) - (by - ay) * (p[0] - ax)

        kept = []
        for p, q in zip(points, points[1:] + points[:1], strict=True):
            if side(p) >= 0:
                kept.append(p)
            if side(p) * side(q) < 0:
                t = side(p) / (side(p) - side(q))
                kept.append((p[0] + t * (q[0] - p[0]), p[1] + t * (q[1] - p[1])))
        points = kept
        if not points:
            return 0.0
    return abs(sum(p[0] * q[1] - p[1] * q[0] for p, q in zip(points, points[1:] + points[:1], strict=True))) / 2


def random_boxes(*shape, seed):
    generator = torch.Generator().manual_seed(seed)
    centre, size = torch.rand(*shape, 2, generator=generator) * 20, torch.rand(*shape, 2, generator=generator) * 15 + 1
    return torch.cat([centre, size, torch.rand(*shape, 1, generator=generator) * 360 - 180], -1)


@pytest.mark.parametrize("num", [0, 1, 8])
def test_overlaps_and_iou_of_every_pair(num):
    boxes, query = random_boxes(2, num, seed=0), random_boxes(2, 6, seed=1)
    overlaps = npu.npu_rotated_overlaps(boxes.npu(), query.npu(), False).cpu()
    iou = npu.npu_rotated_iou(boxes.npu(), query.npu()).cpu()
    assert overlaps.shape == iou.shape == (2, num, 6)
    for b in range(2):
        for i in range(num):
            for j in range(6):
                one, other = boxes[b, i].tolist(), query[b, j].tolist()
                area = clipped_area(outline(one), outline(other))
                assert overlaps[b, i, j].item() == pytest.approx(area, abs=1e-3)
                union = one[2] * one[3] + other[2] * other[3] - area
                assert iou[b, i, j].item() == pytest.approx(area / union, abs=1e-4)


def test_equal_touching_and_nested_boxes():
    box = torch.tensor([10.0, 10, 4, 2, 30])
    nested, touching = torch.tensor([10.0, 10, 2, 1, 30]), torch.tensor([4.0, 0, 4, 4, 0])
    first = torch.stack([box, box, torch.tensor([0.0, 0, 4, 4, 0]), torch.tensor([0.0, 0, 2, 2, 0])])
    second = torch.stack([box, nested, touching, torch.tensor([0.0, 0, 2, 2, 90])])
    actual = npu.npu_rotated_overlaps(first[None].npu(), second[None].npu(), False).cpu()[0].diagonal()
    torch.testing.assert_close(actual, torch.tensor([8.0, 2, 0, 4]))


def test_empty_boxes_have_no_iou():
    nothing = torch.zeros(1, 1, 5)
    assert npu.npu_rotated_iou(nothing.npu(), nothing.npu()).item() == 0


def test_corner_boxes_are_the_same_boxes():
    boxes, query = random_boxes(1, 5, seed=0), random_boxes(1, 5, seed=1)
    cornered = [torch.cat([v[..., :2] - v[..., 2:4] / 2, v[..., :2] + v[..., 2:4] / 2, v[..., 4:]], -1).npu()
                for v in (boxes, query)]  # fmt: skip
    for operator in (npu.npu_rotated_overlaps, npu.npu_rotated_iou):
        expected = operator(boxes.npu(), query.npu(), False).cpu()
        torch.testing.assert_close(operator(*cornered, True).cpu(), expected, rtol=1e-4, atol=1e-4)


def published_boxes(low, high, first, second, dtype):
    """The boxes of the vendor's own test."""
    np.random.seed(1234)
    found = []
    for shape in (first, second):
        centre = np.random.uniform(low, high, (*shape, 2)).astype(dtype)
        size, angle = np.random.randint(1, 20, size=(*shape, 2)), np.random.randint(-180, 180, size=(*shape, 1))
        found.append(torch.from_numpy(np.concatenate([centre, size, angle], axis=-1, dtype=dtype)).npu())
    return found


@pytest.mark.parametrize(
    ("dtype", "num", "expected"),
    [(np.float32, 2, [[0, 10.289731], [0, 0], [0, 0]]),
     (np.float16, 4, [[0, 13.27, 1.022, 0], [0, 0, 54.12, 0], [0, 0, 0, 19.17]])],
)  # fmt: skip
def test_published_overlaps(dtype, num, expected):
    actual = npu.npu_rotated_overlaps(*published_boxes(30, 60, (1, 3), (1, num), dtype), False).cpu()
    torch.testing.assert_close(actual.float(), torch.tensor([expected]), rtol=1e-3, atol=1e-4)


def test_published_iou():
    actual = npu.npu_rotated_iou(*published_boxes(20, 60, (4, 2), (4, 3), np.float32), False, 0, True, 0.0, 0.0).cpu()
    expected = torch.zeros(4, 2, 3)
    expected[0, 0, 1], expected[2, 1, 0], expected[2, 1, 1] = 0.00045966, 0.00600622, 0.10504241
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("arguments", [{"mode": 1}, {"is_cross": False}, {"v_threshold": 0.1}, {"e_threshold": 0.1}])
def test_what_is_not_documented_is_refused(arguments):
    with pytest.raises(NotImplementedError, match="npu_rotated_iou is emulated without"):
        npu.npu_rotated_iou(random_boxes(1, 1, seed=0).npu(), random_boxes(1, 1, seed=1).npu(), **arguments)


def column(*numbers):
    return torch.tensor(numbers).reshape(1, 5, 1)


def test_published_codes_of_rotated_boxes():
    ones = torch.ones(5).npu()
    anchors, gt = column(44.2877, 9.1412, 88.7575, 25.8879, 64.8047), column(39.1763, 0.9838, 78.1028, 29.5997, 51.5907)
    encoded = npu.npu_rotated_box_encode(anchors.npu(), gt.npu(), ones).cpu()
    torch.testing.assert_close(encoded, column(-0.1773, -0.1327, -0.1331, 0.5358, -0.8643), rtol=1e-3, atol=1e-4)
    anchors = column(32.1855, 41.9922, 64.1435, 62.5325, 34.607)
    deltas = column(1.8725, -1.8915, 0.2395, -0.4622, -34.6539)
    decoded = npu.npu_rotated_box_decode(anchors.npu(), deltas.npu(), ones).cpu()
    torch.testing.assert_close(
        decoded, column(87.70366, 6.9412346, 128.31055, 19.879467, -88.313515), rtol=1e-4, atol=0
    )


def test_decoding_rotated_boxes_is_the_inverse_of_encoding():
    generator = torch.Generator().manual_seed(0)

    def boxes():
        first = torch.rand(2, 2, 7, generator=generator) * 30
        last = first + torch.rand(2, 2, 7, generator=generator) * 30 + 1
        return torch.cat([first, last, torch.rand(2, 1, 7, generator=generator) * 160 - 80], 1)

    anchors, gt, weight = boxes().npu(), boxes(), torch.tensor([1.0, 2, 3, 4, 5]).npu()
    offsets = npu.npu_rotated_box_encode(anchors, gt.npu(), weight)
    torch.testing.assert_close(npu.npu_rotated_box_decode(anchors, offsets, weight).cpu(), gt, rtol=1e-4, atol=1e-3)


def test_no_polygons_have_no_area():
    assert intersection_area(torch.empty(0, 4, 2), torch.empty(0, 4, 2)).shape == (0,)
