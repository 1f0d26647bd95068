"""Functions and layers of `torch_npu.contrib` for boxes and regions, against formulas written here."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional

from jumar.device import DevicePlan, activate
from jumar.npu.api.contrib import function, module
from jumar.npu.api.contrib.function import anchor_generator
from jumar.npu.core.events import listen

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

Tensor = torch.Tensor
DEPRECATED = r"torch_npu\.contrib\.(function\.)?npu_\w+ is deprecated"


def corners(num: int, seed: int, side: int = 256) -> Tensor:
    """Boxes (x1, y1, x2, y2) in whole pixels, at least two wide."""
    generator = torch.Generator().manual_seed(seed)
    first = torch.randint(0, side // 2, (num, 2), generator=generator)
    return torch.cat([first, first + torch.randint(2, side // 2, (num, 2), generator=generator)], 1).float()


def centred(boxes: Tensor) -> Tensor:
    """The same boxes as (centre x, centre y, width, height)."""
    return torch.cat([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], 1)


# Overlap ----------------------------------------------------------------------------------------------------


def plain_iou(one: Tensor, other: Tensor) -> Tensor:
    """Overlap of (..., 4) corner boxes, broadcast."""
    sides = torch.minimum(one[..., 2:], other[..., 2:]) - torch.maximum(one[..., :2], other[..., :2])
    common = sides.clamp(min=0).prod(-1)
    areas = (one[..., 2:] - one[..., :2]).prod(-1) + (other[..., 2:] - other[..., :2]).prod(-1)
    return common / (areas - common)


@pytest.mark.parametrize("mode", ["iou", "ptiou"])
@pytest.mark.parametrize("name", ["npu_iou", "npu_ptiou"])
def test_iou_is_the_overlap_of_every_pair(name, mode):
    one, other = corners(7, 0), corners(5, 1)
    with pytest.warns(FutureWarning, match=DEPRECATED):
        overlap = getattr(function, name)(one.npu(), other.npu(), mode=mode)
    assert overlap.shape == (7, 5)
    torch.testing.assert_close(overlap.cpu(), plain_iou(one[:, None], other), rtol=5e-3, atol=1e-3)


def test_normalized_boxes_are_scaled_before_their_overlap():
    one, other = corners(7, 0), corners(5, 1)
    with pytest.warns(FutureWarning, match=DEPRECATED):
        overlap = function.npu_iou(one.npu() / 256, other.npu() / 256, is_normalized=True, normalized_scale=256.0)
    torch.testing.assert_close(overlap.cpu(), plain_iou(one[:, None], other), rtol=5e-3, atol=1e-3)


def test_iou_has_two_modes():
    boxes = corners(2, 0).npu()
    with pytest.warns(FutureWarning, match=DEPRECATED), pytest.raises(ValueError, match=r"mode in \[iou, ptiou\]"):
        function.npu_iou(boxes, boxes, mode="giou")


def around(one: Tensor, other: Tensor) -> Tensor:
    """Sides of the smallest box around each pair."""
    return torch.maximum(one[:, 2:], other[:, 2:]) - torch.minimum(one[:, :2], other[:, :2])


def to_corners(boxes: Tensor) -> Tensor:
    return torch.cat([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], 1)


def giou(one: Tensor, other: Tensor) -> Tensor:
    one, other = to_corners(one), to_corners(other)
    areas = (one[:, 2:] - one[:, :2]).prod(1) + (other[:, 2:] - other[:, :2]).prod(1)
    overlap, hull = plain_iou(one, other), around(one, other).prod(1)
    union = areas / (1 + overlap)
    return overlap - (hull - union) / hull


def diou(one: Tensor, other: Tensor) -> Tensor:
    distance = (one[:, :2] - other[:, :2]).pow(2).sum(1)
    one, other = to_corners(one), to_corners(other)
    return plain_iou(one, other) - distance / around(one, other).pow(2).sum(1)


def ciou(one: Tensor, other: Tensor) -> Tensor:
    aspect = 4 / math.pi**2 * (torch.atan(other[:, 2] / other[:, 3]) - torch.atan(one[:, 2] / one[:, 3])) ** 2
    overlap = plain_iou(to_corners(one), to_corners(other))
    alpha = (aspect / (1 - overlap + aspect)).detach()
    return diou(one, other) - alpha * aspect


LOSSES = [
    (function.npu_giou, giou),
    (lambda one, other: function.npu_diou(one.t(), other.t()), diou),
    (lambda one, other: function.npu_ciou(one.t(), other.t()), ciou),
]


@pytest.mark.parametrize(("loss", "formula"), LOSSES, ids=["giou", "diou", "ciou"])
def test_losses_of_boxes_follow_their_papers_with_gradients(loss, formula):
    one, other = centred(corners(9, 0)), centred(corners(9, 1))
    found = []
    for device, overlap in (("npu", loss), ("cpu", formula)):
        leaves = [boxes.detach().to(device).requires_grad_() for boxes in (one, other)]
        if device == "npu":
            with pytest.warns(FutureWarning, match=DEPRECATED):
                result = overlap(*leaves).flatten()
        else:
            result = overlap(*leaves)
        (result * torch.linspace(1, 2, 9).to(device)).sum().backward()
        found.append([tensor.detach().cpu() for tensor in (result, leaves[0].grad, leaves[1].grad)])
    torch.testing.assert_close(found[0], found[1], rtol=1e-3, atol=1e-4)


def test_giou_takes_boxes_by_column_too():
    one, other = centred(corners(4, 0)).npu(), centred(corners(4, 1)).npu()
    with pytest.warns(FutureWarning, match=DEPRECATED):
        by_row, by_column = function.npu_giou(one, other), function.npu_giou(one.t(), other.t(), is_permuted=False)
    assert torch.equal(by_row, by_column)
    with pytest.warns(FutureWarning, match=DEPRECATED), pytest.raises(ValueError, match=r"boxes1\.shape == boxes2"):
        function.npu_giou(one, other[:2])


# Coding of boxes --------------------------------------------------------------------------------------------


HALF = {"rtol": 1e-3, "atol": 2e-3}
"""The coder computes in float16, three roundings."""


def encoded(anchors: Tensor, boxes: Tensor, means: Tensor, deviations: Tensor) -> Tensor:
    """Deltas of the first detectors, whose boxes include their last pixel."""
    a, b = centred(anchors), centred(boxes)
    a[:, 2:] += 1
    b[:, 2:] += 1
    deltas = torch.cat([(b[:, :2] - a[:, :2]) / a[:, 2:], (b[:, 2:] / a[:, 2:]).log()], 1)
    return (deltas - means) / deviations


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.float16])
def test_encoding_gives_the_deltas_of_anchors_in_float32(dtype):
    anchors, boxes = corners(6, 0), corners(6, 1)
    deltas = function.npu_bbox_coder_encode_xyxy2xywh(anchors.to(dtype).npu(), boxes.to(dtype).npu())
    assert deltas.dtype == torch.float32
    torch.testing.assert_close(deltas.cpu(), encoded(anchors, boxes, torch.zeros(4), torch.ones(4)), **HALF)


def test_encoding_takes_means_deviations_and_normalized_boxes():
    anchors, boxes = corners(6, 0), corners(6, 1)
    means, deviations = [0.1, -0.2, 0.3, 0.0], [0.1, 0.2, 0.5, 2.0]
    deltas = function.npu_bbox_coder_encode_xyxy2xywh(
        anchors.npu() / 512, boxes.npu() / 512, means, deviations, is_normalized=True, normalized_scale=512.0
    )
    expected = encoded(anchors, boxes, torch.tensor(means), torch.tensor(deviations))
    torch.testing.assert_close(deltas.cpu(), expected, **HALF)


def test_decoding_undoes_encoding():
    anchors, boxes = corners(6, 0), corners(6, 1)
    means, deviations = [0.1, -0.2, 0.3, 0.0], [0.1, 0.2, 0.5, 2.0]
    deltas = function.npu_bbox_coder_encode_xyxy2xywh(anchors.npu(), boxes.npu(), means, deviations)
    decoded = function.npu_bbox_coder_decode_xywh2xyxy(anchors.npu(), deltas, means, deviations, wh_ratio_clip=1 / 1000)
    torch.testing.assert_close(decoded.cpu(), boxes, rtol=1e-3, atol=0.5)


def test_decoding_clips_to_the_image_and_the_change_of_size():
    anchors = torch.tensor([[10.0, 20.0, 19.0, 29.0]]).npu()
    grown = torch.tensor([[0.0, 0.0, 9.0, 9.0]]).npu()
    assert function.npu_bbox_coder_decode_xywh2xyxy(anchors, grown, max_shape=(50, 60)).tolist() == [[0, 0, 59, 49]]
    # Half of (10, 10) to each side of the centre, times 1 / wh_ratio_clip = 2.
    decoded = function.npu_bbox_coder_decode_xywh2xyxy(anchors, grown, wh_ratio_clip=0.5)
    torch.testing.assert_close(decoded.cpu(), torch.tensor([[5.0, 15.0, 24.0, 34.0]]))


def test_yolo_encoding_gives_centres_in_cells_and_logarithms_of_sizes():
    anchors, boxes, stride = corners(6, 0), corners(6, 1), torch.tensor([8, 16, 32, 64, 128, 256])
    a, b = centred(anchors), centred(boxes)
    centre = ((b[:, :2] - a[:, :2]) / stride[:, None] + 0.5).clamp(1e-6, 1 - 1e-6)
    expected = torch.cat([centre, (b[:, 2:] / a[:, 2:]).clamp(min=1e-6).log()], 1)
    deltas = function.npu_bbox_coder_encode_yolo(anchors.long().npu(), boxes.long().npu(), stride.npu())
    torch.testing.assert_close(deltas.cpu(), expected)
    assert centre.unique().numel() > 4, "not all clamped"


CODERS = [
    lambda anchors, boxes: function.npu_bbox_coder_encode_yolo(anchors, boxes, torch.ones(2).npu()),
    function.npu_bbox_coder_encode_xyxy2xywh,
    function.npu_bbox_coder_decode_xywh2xyxy,
]


@pytest.mark.parametrize("coder", CODERS, ids=["yolo", "encode", "decode"])
def test_coders_want_equal_numbers_of_boxes_of_four(coder):
    with pytest.raises(ValueError, match=r"bboxes\.size\(0\) == \w+\.size\(0\)"):
        coder(torch.ones(2, 4).npu(), torch.ones(3, 4).npu())
    with pytest.raises(ValueError, match=r"bboxes\.size\(-1\) == \w+\.size\(-1\) == 4"):
        coder(torch.ones(2, 5).npu(), torch.ones(2, 5).npu())


@pytest.mark.parametrize("stride", [(8, 8), (16, 8)])
def test_anchors_of_the_cells_that_hold_a_centre_are_responsible(stride):
    boxes = corners(5, 3, side=64)
    flags = function.npu_single_level_responsible_flags((10, 12), boxes.npu(), stride, 3).cpu()
    expected = torch.zeros(10, 12, 3, dtype=torch.uint8)
    for x1, y1, x2, y2 in boxes.tolist():
        expected[int((y1 + y2) / 2 // stride[1]), int((x1 + x2) / 2 // stride[0])] = 1
    assert torch.equal(flags, expected.flatten())


def test_boxes_become_float32():
    assert {torch.float32} == {
        anchor_generator.box_dtype_check(torch.ones(1, 4, dtype=dtype)).dtype
        for dtype in (torch.float16, torch.float32, torch.int64)
    }


# Suppression ------------------------------------------------------------------------------------------------


def plain_nms(boxes: Tensor, scores: Tensor, score_thr: float, nms_thr: float, max_num: int) -> list[tuple[int, int]]:
    """Return (box, class) of what is kept: each class by itself, then the best of all."""
    kept = []
    for kind in range(scores.shape[1]):
        own: list[int] = []
        for index in scores[:, kind].argsort(descending=True).tolist():
            column = boxes[:, min(kind, boxes.shape[1] - 1)]
            fits = all(plain_iou(column[index], column[other]) <= nms_thr for other in own)
            if scores[index, kind] > score_thr and fits:
                own.append(index)
        kept += [(index, kind) for index in own]
    return sorted(kept, key=lambda pair: -scores[pair])[:max_num]


@pytest.mark.parametrize("per_class", [False, True])
def test_multiclass_nms_keeps_the_best_boxes_of_every_class(per_class):
    generator = torch.Generator().manual_seed(0)
    # Scores are distinct in float16, so that the order is that of the reference.
    scores = (torch.randperm(30 * 4, generator=generator).view(30, 4) / 128).float()
    boxes = corners(30 * (3 if per_class else 1), 1, side=128).view(30, -1, 4)
    kept, classes = function.npu_multiclass_nms(
        boxes.view(30, -1).npu(), scores.npu(), score_thr=0.2, nms_thr=0.3, max_num=8
    )
    expected = plain_nms(boxes, scores[:, :-1], 0.2, 0.3, 8)
    assert len(expected) == 8
    rows = [[*boxes[index, kind if per_class else 0].tolist(), scores[index, kind].item()] for index, kind in expected]
    torch.testing.assert_close(kept.float().cpu(), torch.tensor(rows), rtol=1e-3, atol=1e-3)
    assert classes.tolist() == [kind for _, kind in expected]


def test_multiclass_nms_pads_with_zeros_and_weighs_scores():
    boxes = torch.tensor([[0.0, 0.0, 8.0, 8.0], [20.0, 20.0, 30.0, 30.0]]).npu()
    scores = torch.tensor([[0.5, 0.0, 0.0], [0.0, 0.25, 0.0]]).npu()
    kept, classes = function.npu_multiclass_nms(
        boxes, scores, score_thr=0.1, max_num=4, score_factors=torch.tensor([0.5, 2.0]).npu()
    )
    assert kept.shape == (4, 5)
    assert kept.tolist() == [[20, 20, 30, 30, 0.5], [0, 0, 8, 8, 0.25], [0] * 5, [0] * 5]
    assert classes.tolist()[:2] == [1, 0]


def test_batched_nms_is_nms_of_every_image():
    scores = torch.rand(3, 20, 5, generator=torch.Generator().manual_seed(0)).npu()
    boxes = corners(60, 2).view(3, 20, 4).npu()
    kept, classes = function.npu_batched_multiclass_nms(boxes, scores, max_num=6)
    for image in range(3):
        own, own_classes = function.npu_multiclass_nms(boxes[image], scores[image], max_num=6)
        assert torch.equal(own, kept[image])
        assert torch.equal(own_classes, classes[image])


# Regions ----------------------------------------------------------------------------------------------------


def sample(image: Tensor, y: float, x: float) -> Tensor:
    """Interpolate (channels, height, width) at one place; nothing beyond a pixel outside."""
    height, width = image.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return image.new_zeros(image.shape[0])
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    dy, dx = y - top, x - left
    upper = image[:, top, left] * (1 - dx) + image[:, top, right] * dx
    lower = image[:, bottom, left] * (1 - dx) + image[:, bottom, right] * dx
    return upper * (1 - dy) + lower * dy


def plain_roi_align(features: Tensor, rois: Tensor, size: tuple[int, int], scale: float, num: int, aligned: bool):
    rows = []
    for image, *roi in rois.tolist():
        x1, y1, x2, y2 = (value * scale - (0.5 if aligned else 0) for value in roi)
        width, height = (x2 - x1, y2 - y1) if aligned else (max(x2 - x1, 1), max(y2 - y1, 1))
        step_y, step_x = height / size[0], width / size[1]
        bins = []
        for i in range(size[0]):
            for j in range(size[1]):
                places = [
                    (y1 + (i + (a + 0.5) / num) * step_y, x1 + (j + (b + 0.5) / num) * step_x)
                    for a in range(num)
                    for b in range(num)
                ]
                bins.append(torch.stack([sample(features[int(image)], y, x) for y, x in places]).mean(0))
        rows.append(torch.stack(bins, 1).view(-1, *size))
    return torch.stack(rows)


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("size", [(2, 2), (3, 2)])
def test_roi_align_averages_samples_of_every_bin_with_gradients(aligned, size):
    rois = torch.tensor([[0, 1.0, 2.0, 13.0, 11.0], [1, -3.0, 4.0, 20.0, 30.0], [1, 5.0, 5.0, 6.0, 6.0]])
    layer = module.ROIAlign(size, 0.5, 2, aligned=aligned)
    found = []
    for device in ("npu", "cpu"):
        features = torch.randn(2, 3, 8, 9, generator=torch.Generator().manual_seed(0)).to(device).requires_grad_()
        if device == "npu":
            result = layer(features, rois.npu())
        else:
            result = plain_roi_align(features, rois, size, 0.5, 2, aligned)
        (result * torch.linspace(-1, 1, result.numel()).view(result.shape).to(device)).sum().backward()
        found.append([result.detach().cpu(), features.grad.cpu()])
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)


def test_roi_align_computes_in_float32_by_one_operator_each_way():
    features = torch.randn(1, 2, 8, 8).half().npu().requires_grad_()
    operators: list[str] = []
    with listen(lambda event: operators.append(event.operator)):
        result = module.ROIAlign((2, 2), 1.0, 2)(features, torch.tensor([[0, 1.0, 1.0, 5.0, 5.0]]).npu())
        result.sum().backward()
    assert (result.dtype, features.grad.dtype) == (torch.float32, torch.float16)
    assert [name for name in operators if name.startswith("npu::")] == ["npu::npu_roi_align", "npu::npu_roi_alignbk"]


def test_roi_align_wants_five_numbers_a_region_and_shows_its_options():
    layer = module.ROIAlign((7, 7), 0.0625, 2, aligned=False)
    with pytest.raises(ValueError, match=r"rois\.size\(1\) == 5"):
        layer(torch.ones(1, 1, 4, 4).npu(), torch.ones(2, 4).npu())
    assert repr(layer) == "ROIAlign(output_size=(7, 7), spatial_scale=0.0625, sampling_ratio=2, aligned=False)"


def plain_psroi(features: Tensor, rois: Tensor, scale: float, group: int, dim: int) -> Tensor:
    """Average each bin in the channel of its own position (R-FCN)."""
    _, _, height, width = features.shape
    maps = features.view(features.shape[0], dim, group, group, height, width)
    rows = []
    for image, *roi in rois.permute(0, 2, 1).reshape(-1, 5).tolist():
        x1, y1 = round(roi[0]) * scale, round(roi[1]) * scale
        bin_x = max(round(roi[2] + 1) * scale - x1, 0.1) / group
        bin_y = max(round(roi[3] + 1) * scale - y1, 0.1) / group
        result = features.new_zeros(dim, group, group)
        for i in range(group):
            for j in range(group):
                top, bottom = math.floor(y1 + i * bin_y), math.ceil(y1 + (i + 1) * bin_y)
                left, right = math.floor(x1 + j * bin_x), math.ceil(x1 + (j + 1) * bin_x)
                top, bottom = (min(max(value, 0), height) for value in (top, bottom))
                left, right = (min(max(value, 0), width) for value in (left, right))
                if bottom > top and right > left:
                    result[:, i, j] = maps[int(image), :, i, j, top:bottom, left:right].mean((1, 2))
        rows.append(result)
    return torch.stack(rows)


def test_psroi_pools_each_bin_from_its_own_channel_with_gradients():
    rois = torch.tensor([[[0, 3.0, 5.0, 60.0, 90.0], [0, 0.0, 0.0, 20.0, 20.0]]] * 2).clone()
    rois[1, :, 0] = 1
    rois = rois.permute(0, 2, 1)
    layer = module.PSROIPool(3, 3, 1 / 8, 3, 2)
    found = []
    for device in ("npu", "cpu"):
        features = torch.randn(2, 18, 12, 12, generator=torch.Generator().manual_seed(0)).to(device).requires_grad_()
        result = layer(features, rois.npu()) if device == "npu" else plain_psroi(features, rois, 1 / 8, 3, 2)
        (result * torch.linspace(-1, 1, result.numel()).view(result.shape).to(device)).sum().backward()
        found.append([result.detach().cpu(), features.grad.cpu()])
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)


def test_psroi_pools_squares():
    with pytest.raises(ValueError, match="only pooled_height == pooled_width == group_size supported"):
        module.PSROIPool(7, 6, 1 / 16, 7, 2)
    assert repr(module.PSROIPool()) == "PSROIPool(spatial_scale=0.0625, group_size=7, output_dim=22)"


# Deformable convolution -------------------------------------------------------------------------------------


def plain_deformable(
    image: Tensor, offset: Tensor, mask: Tensor, weight: Tensor, stride: int, padding: int, dilation: int
) -> Tensor:
    """Sample at y, x offsets of every kernel element by `grid_sample`, scale by the mask, convolve by matmul."""
    height, width = image.shape[2:]
    rows, columns = weight.shape[2:]
    out_height, out_width = offset.shape[2:]
    base_y = torch.arange(out_height).view(-1, 1) * stride - padding
    base_x = torch.arange(out_width).view(1, -1) * stride - padding
    total = 0
    for place in range(rows * columns):
        y = base_y + place // columns * dilation + offset[:, 2 * place]
        x = base_x + place % columns * dilation + offset[:, 2 * place + 1]
        grid = torch.stack((2 * x / (width - 1) - 1, 2 * y / (height - 1) - 1), -1)
        sampled = functional.grid_sample(image, grid, mode="bilinear", padding_mode="zeros", align_corners=True)
        kernel = weight[:, :, place // columns, place % columns]
        total = total + torch.einsum("oc,bchw->bohw", kernel, sampled * mask[:, place, None])
    return total


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 1, 1), (2, 1, 1), (1, 2, 2)])
def test_modulated_deformable_convolution_samples_at_its_offsets_with_gradients(stride, padding, dilation):
    torch.manual_seed(0)
    image = torch.randn(2, 4, 7, 6)
    size = [(side + 2 * padding - 2 * dilation - 1) // stride + 1 for side in image.shape[2:]]
    # Offsets keep away from whole pixels, where the interpolation has no derivative.
    offset = torch.randn(2, 18, *size).mul(1.5).floor() + 0.2 + 0.6 * torch.rand(2, 18, *size)
    mask = torch.rand(2, 9, *size)
    layer = module.ModulatedDeformConv(4, 3, 3, stride, padding, dilation, pack=False)
    with torch.no_grad():
        layer.bias.copy_(torch.tensor([0.5, -1.0, 2.0]))
    found = []
    for device in ("npu", "cpu"):
        layer.to(device).zero_grad()
        leaves = [tensor.detach().to(device).requires_grad_() for tensor in (image, offset, mask)]
        if device == "npu":
            result = layer(leaves)
        else:
            result = plain_deformable(*leaves, layer.weight, stride, padding, dilation) + layer.bias.view(-1, 1, 1)
        (result * torch.linspace(-1, 1, result.numel()).view(result.shape).to(device)).sum().backward()
        gradients = [tensor.grad.cpu() for tensor in (*leaves, layer.weight, layer.bias)]
        found.append([result.detach().cpu(), *gradients])
    torch.testing.assert_close(found[0], found[1], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
def test_a_packed_deformable_convolution_begins_as_half_a_convolution(bias):
    layer = module.DCNv2(4, 6, 3, 2, 1, bias=bias).npu()
    image = torch.randn(2, 4, 7, 7).npu().requires_grad_()
    # Zero offsets, and a mask of sigmoid(0).
    torch.testing.assert_close(layer(image), functional.conv2d(image, layer.weight, None, 2, 1) / 2)
    layer(image).sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())
    assert layer.conv_offset.weight.grad.abs().sum() > 0


def test_deformable_convolution_is_one_operator_each_way():
    layer = module.ModulatedDeformConv(2, 2, 3).npu()
    operators: list[str] = []
    with listen(lambda event: operators.append(event.operator)):
        layer(torch.randn(1, 2, 5, 5).npu()).sum().backward()
    own = [name for name in operators if name.startswith("npu::")]
    assert own == ["npu::npu_deformable_conv2d", "npu::npu_deformable_conv2dbk"]
