"""Intersection over union of axis-aligned boxes, and the losses made of it.

`npu_iou` takes (n, 4) boxes, `npu_giou`, `npu_diou` and `npu_ciou` (4, n) ones: (x1, y1, x2, y2), or centre,
width and height with `trans`. Formulas: Rezatofighi et al. 2019 (GIoU), Zheng et al. 2020 (DIoU, CIoU). In the
gradient of CIoU its weight alpha is a constant, as in that paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from jumar.npu.ops.helpers.checks import expect, refuse
from jumar.npu.ops.mechanism.gradients import differentiate, like
from jumar.npu.ops.mechanism.implement import Step, derivative, implements, shared

Tensor = torch.Tensor
_SIDE = 0.01
"""What `npu_iou` adds to the sides of boxes when it computes their areas."""
_EPS = 1e-9


@implements("npu_iou", "npu_ptiou", differentiable=False)
def iou(boxes: Tensor, gt_boxes: Tensor, mode: int) -> Tensor:
    """Overlap of every pair, (num gt, num boxes), for (n, 4) corner boxes; mode 1 divides by the area of the gt box.

    Coordinates, the sides of the boxes, which count 0.01 longer, and their areas are rounded to float16, and the
    result is too, whatever the dtype: so come the vendor's published results (`test_iou.py`, `test_ptiou.py`).
    """
    expect(boxes.shape[-1:] == (4,), "npu_iou", "bboxes must be of shape (n, 4)", tuple(boxes.shape))
    expect(gt_boxes.shape[-1:] == (4,), "npu_iou", "gtboxes must be of shape (n, 4)", tuple(gt_boxes.shape))
    a, b = boxes.half().float(), gt_boxes.half().float()[:, None]
    sides = torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])
    overlap = sides.clamp(min=0).prod(-1)
    area = _half_area(b)
    if mode != 1:
        area = area + _half_area(a) - overlap
    return (overlap / area).half().to(boxes.dtype)


def _half_area(boxes: Tensor) -> Tensor:
    """Return the areas of boxes whose sides count 0.01 longer, each step rounded to float16."""
    return (boxes[..., 2:] - boxes[..., :2] + _SIDE).half().float().prod(-1).half().float()


def _corners(boxes: Tensor, trans: bool) -> tuple[Tensor, ...]:
    first, second, third, fourth = boxes.unbind(0)
    if not trans:
        return first, second, third, fourth
    return first - third / 2, second - fourth / 2, first + third / 2, second + fourth / 2


class _Pair:
    """What the losses have in common: overlap, union and the smallest box around both."""

    def __init__(self, boxes: Tensor, gt_boxes: Tensor, trans: bool, is_cross: bool) -> None:
        ax1, ay1, ax2, ay2 = _corners(boxes.float() if boxes.dtype == torch.half else boxes, trans)
        bx1, by1, bx2, by2 = _corners(gt_boxes.float() if gt_boxes.dtype == torch.half else gt_boxes, trans)
        if is_cross:
            bx1, by1, bx2, by2 = (side.unsqueeze(1) for side in (bx1, by1, bx2, by2))
        minimum, maximum = torch.minimum, torch.maximum
        overlap = (minimum(ax2, bx2) - maximum(ax1, bx1)).clamp(0) * (minimum(ay2, by2) - maximum(ay1, by1)).clamp(0)
        self.size, self.gt_size = (ax2 - ax1, ay2 - ay1 + _EPS), (bx2 - bx1, by2 - by1 + _EPS)
        self.union = self.size[0] * self.size[1] + self.gt_size[0] * self.gt_size[1] - overlap + _EPS
        self.iou = overlap / self.union
        self.around = (maximum(ax2, bx2) - minimum(ax1, bx1), maximum(ay2, by2) - minimum(ay1, by1))
        self.centre_distance = ((bx1 + bx2 - ax1 - ax2) ** 2 + (by1 + by2 - ay1 - ay2) ** 2) / 4

    def diou(self) -> Tensor:
        """Overlap minus the squared centre distance over the squared diagonal of the box around."""
        width, height = self.around
        return self.iou - self.centre_distance / (width**2 + height**2 + _EPS)


def _check(name: str, boxes: Tensor, gt_boxes: Tensor, is_cross: bool, mode: int) -> None:
    shapes = f"{tuple(boxes.shape)} and {tuple(gt_boxes.shape)}"
    ok = boxes.dim() == gt_boxes.dim() == 2 and boxes.shape[0] == gt_boxes.shape[0] == 4
    expect(ok, name, "both kinds of boxes must be of shape (4, n)", shapes)
    expect(is_cross or boxes.shape == gt_boxes.shape, name, "there must be as many boxes of both kinds", shapes)
    if mode != 0:
        refuse(name, f"mode {mode} (IoF)", "which box's area it divides by is not documented; use mode 0")


def _trainable(name: str, trans: bool, is_cross: bool, mode: int) -> None:
    expect(
        trans and not is_cross and mode == 0,
        name,
        "backward only supports trans=True, is_cross=False and mode=0",
        f"trans={trans}, is_cross={is_cross}, mode={mode}",
    )


def _half_if(result: Tensor, *boxes: Tensor) -> Tensor:
    return result.half() if any(item.dtype == torch.half for item in boxes) else result


@implements("npu_giou")
def giou(boxes: Tensor, gt_boxes: Tensor, trans: bool, is_cross: bool, mode: int) -> Tensor:
    """Generalised IoU, (n, 1). The device only takes trans=True, is_cross=False and mode=0."""
    _trainable("npu_giou", trans, is_cross, mode)
    _check("npu_giou", boxes, gt_boxes, is_cross, mode)
    return _half_if(_giou(boxes, gt_boxes).unsqueeze(1), boxes, gt_boxes)


def _giou(boxes: Tensor, gt_boxes: Tensor) -> Tensor:
    pair = _Pair(boxes, gt_boxes, True, False)
    around = pair.around[0] * pair.around[1] + _EPS
    return pair.iou - (around - pair.union) / around


@implements("npu_diou")
def diou(boxes: Tensor, gt_boxes: Tensor, trans: bool, is_cross: bool, mode: int) -> Tensor:
    """Distance IoU, (1, n), or (num gt, num boxes) with `is_cross`."""
    _check("npu_diou", boxes, gt_boxes, is_cross, mode)
    found = _Pair(boxes, gt_boxes, trans, is_cross).diou()
    return _half_if(found if is_cross else found.unsqueeze(0), boxes, gt_boxes)


@implements("_npu_ciou", outputs=(0,), backward="npu_ciou_backward")
def ciou_and_angle(
    boxes: Tensor, gt_boxes: Tensor, trans: bool, is_cross: bool, mode: int, _atan_sub_flag: bool
) -> tuple[Tensor, Tensor]:
    """Complete IoU, shaped as for `npu_diou`, and the difference of the boxes' angles atan(width / height)."""
    _check("npu_ciou", boxes, gt_boxes, is_cross, mode)
    found, angle = _ciou(boxes, gt_boxes, trans, is_cross)
    if not is_cross:
        found, angle = found.unsqueeze(0), angle.unsqueeze(0)
    return _half_if(found, boxes, gt_boxes), angle.detach()


def _ciou(boxes: Tensor, gt_boxes: Tensor, trans: bool, is_cross: bool) -> tuple[Tensor, Tensor]:
    pair = _Pair(boxes, gt_boxes, trans, is_cross)
    angle = torch.atan(pair.gt_size[0] / pair.gt_size[1]) - torch.atan(pair.size[0] / pair.size[1])
    shape = 4 / math.pi**2 * angle**2
    alpha = (shape / (1 + _EPS - pair.iou + shape)).detach()
    return pair.diou() - alpha * shape, angle


@implements("npu_ciou", backward="npu_ciou_backward")
def ciou(boxes: Tensor, gt_boxes: Tensor, trans: bool, is_cross: bool, mode: int, atan_sub_flag: bool) -> Tensor:
    """Complete IoU, shaped as for `npu_diou`."""
    return ciou_and_angle(boxes, gt_boxes, trans, is_cross, mode, atan_sub_flag)[0]


def _pulled(
    loss: Callable[[Tensor, Tensor], Tensor], grad: Tensor, boxes: Tensor, gt_boxes: Tensor
) -> tuple[Tensor, Tensor]:
    by_boxes, by_gt = differentiate(loss, (boxes.float(), gt_boxes.float()), (grad.float().reshape(-1),))
    return _half_if(by_boxes, boxes, gt_boxes), _half_if(by_gt, boxes, gt_boxes)


def _shaped(_grad: Tensor, boxes: Tensor, gt_boxes: Tensor, *_: Any) -> tuple[Tensor, ...]:
    return like(boxes, gt_boxes)


@implements("npu_giou_backward", differentiable=False, meta=_shaped)
def giou_backward(
    grad: Tensor, boxes: Tensor, gt_boxes: Tensor, trans: bool, is_cross: bool, mode: int
) -> tuple[Tensor, Tensor]:
    """Gradients of both kinds of boxes."""
    _trainable("npu_giou", trans, is_cross, mode)
    return _pulled(_giou, grad, boxes, gt_boxes)


@implements("npu_diou_backward", differentiable=False, meta=_shaped)
def diou_backward(
    grad: Tensor, boxes: Tensor, gt_boxes: Tensor, trans: bool, is_cross: bool, mode: int
) -> tuple[Tensor, Tensor]:
    """Gradients of both kinds of boxes."""
    _trainable("npu_diou", trans, is_cross, mode)
    return _pulled(lambda a, b: _Pair(a, b, True, False).diou(), grad, boxes, gt_boxes)


@implements("npu_ciou_backward", differentiable=False, meta=_shaped)
def ciou_backward(
    grad: Tensor, boxes: Tensor, gt_boxes: Tensor, _atan_sub: Tensor | None, trans: bool, is_cross: bool, mode: int
) -> tuple[Tensor, Tensor]:
    """Gradients of both kinds of boxes. The angles are computed again, whether `atan_sub` is given or not."""
    _trainable("npu_ciou", trans, is_cross, mode)
    return _pulled(lambda a, b: _ciou(a, b, True, False)[0], grad, boxes, gt_boxes)


def _by_operator(step: Step, operator: str, **more: Any) -> Mapping[str, Any]:
    found = shared(step, operator, grad=step.gradients[0], bboxes=step.arguments["self"], **more)
    return dict(zip(("self", "gtboxes"), found, strict=True))


@derivative("npu_giou")
def _giou_gradients(step: Step) -> Mapping[str, Any]:
    return _by_operator(step, "npu_giou_backward")


@derivative("npu_diou")
def _diou_gradients(step: Step) -> Mapping[str, Any]:
    return _by_operator(step, "npu_diou_backward")


@derivative("npu_ciou", "_npu_ciou", reads_results=True)
def _ciou_gradients(step: Step) -> Mapping[str, Any]:
    return _by_operator(step, "npu_ciou_backward", atan_sub=step.results[1] if len(step.results) > 1 else None)
