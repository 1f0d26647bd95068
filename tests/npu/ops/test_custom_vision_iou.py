"""IoU and its losses against formulas in plain Python, and the vendor's published examples."""

from __future__ import annotations

import math

import pytest
import torch
from custom_reference import on_npu, same

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))
npu = torch.ops.npu


def overlap_of(a, b):
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    return width * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("operator", [npu.npu_iou, npu.npu_ptiou])
def test_iou_of_every_pair(operator, mode):
    torch.manual_seed(1)
    boxes, gt = (
        torch.cat([at := torch.randint(0, 40, (n, 2)), at + torch.randint(0, 30, (n, 2))], 1).float() for n in (6, 4)
    )
    actual = operator(boxes.npu(), gt.npu(), mode).cpu()
    assert actual.shape == (4, 6)
    for i, g in enumerate(gt.tolist()):
        for j, b in enumerate(boxes.tolist()):
            overlap, area = overlap_of(g, b), (g[2] - g[0] + 0.01) * (g[3] - g[1] + 0.01)
            if mode == 0:
                area += (b[2] - b[0] + 0.01) * (b[3] - b[1] + 0.01) - overlap
            assert actual[i, j].item() == pytest.approx(overlap / area, abs=5e-4)


def test_the_documented_example_of_iou_to_two_units_of_float16():
    boxes = torch.tensor([[0, 0, 10, 10], [10, 10, 20, 20], [32, 32, 38, 42]], dtype=torch.half)
    gt = torch.tensor([[0, 0, 10, 20], [0, 10, 10, 10], [10, 10, 20, 20]], dtype=torch.half)
    expected = torch.tensor([[0.4985, 0, 0], [0, 0, 0], [0, 0.9961, 0]], dtype=torch.half)
    torch.testing.assert_close(npu.npu_iou(boxes.npu(), gt.npu(), 0).cpu(), expected, rtol=0, atol=5e-4)


def test_no_boxes_have_no_overlaps():
    assert npu.npu_iou(torch.empty(0, 4).npu(), torch.ones(3, 4).npu()).shape == (3, 0)


def plain(kind, a, b, trans=True):
    """One pair, in scalar tensors, so that it differentiates."""
    if trans:
        a, b = ((v[0] - v[2] / 2, v[1] - v[3] / 2, v[0] + v[2] / 2, v[1] + v[3] / 2) for v in (a, b))
    zero = torch.zeros(())
    width = torch.maximum(zero, torch.minimum(a[2], b[2]) - torch.maximum(a[0], b[0]))
    overlap = width * torch.maximum(zero, torch.minimum(a[3], b[3]) - torch.maximum(a[1], b[1]))
    aw, ah, bw, bh = a[2] - a[0], a[3] - a[1], b[2] - b[0], b[3] - b[1]
    union = aw * ah + bw * bh - overlap
    iou = overlap / union
    cw, ch = (
        torch.maximum(a[2], b[2]) - torch.minimum(a[0], b[0]),
        torch.maximum(a[3], b[3]) - torch.minimum(a[1], b[1]),
    )
    if kind == "giou":
        return iou - (cw * ch - union) / (cw * ch)
    distance = ((a[0] + a[2] - b[0] - b[2]) ** 2 + (a[1] + a[3] - b[1] - b[3]) ** 2) / 4
    diou = iou - distance / (cw * cw + ch * ch)
    if kind == "diou":
        return diou
    shape = 4 / math.pi**2 * (torch.atan(bw / bh) - torch.atan(aw / ah)) ** 2
    alpha = (shape / (1 - iou + shape)).detach()
    return diou - alpha * shape


def random_boxes(num, seed):
    generator = torch.Generator().manual_seed(seed)
    centres = torch.rand(2, num, generator=generator) * 10
    return torch.cat([centres, torch.rand(2, num, generator=generator) * 6 + 0.5])


@pytest.mark.parametrize(("kind", "shape"), [("giou", (7, 1)), ("diou", (1, 7)), ("ciou", (1, 7))])
def test_losses_and_their_gradients(kind, shape):
    boxes, gt = random_boxes(7, 0).requires_grad_(), random_boxes(7, 1).requires_grad_()

    def reference(a, b):
        return torch.stack([plain(kind, a[:, i], b[:, i]) for i in range(7)]).reshape(shape)

    same(lambda a, b: getattr(npu, f"npu_{kind}")(a, b, True, False), reference, boxes, gt, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["diou", "ciou"])
def test_crossed_losses_compare_every_pair_of_corner_boxes(kind):
    boxes, gt = random_boxes(3, 2), random_boxes(5, 3)
    corners = [torch.cat([v[:2], v[:2] + v[2:]]) for v in (boxes, gt)]
    expected = torch.stack(
        [torch.stack([plain(kind, corners[0][:, j], corners[1][:, i], False) for j in range(3)]) for i in range(5)]
    )
    actual = getattr(npu, f"npu_{kind}")(corners[0].npu(), corners[1].npu(), False, True, 0)
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-5)


def test_ciou_of_a_degenerate_box_is_finite():
    boxes = torch.tensor([[1.0], [1.0], [0.0], [0.0]])
    found = npu.npu_ciou(boxes.npu(), random_boxes(1, 0).npu(), True, False)
    assert torch.isfinite(found.cpu()).all()


def test_the_published_value_of_ciou():
    boxes = torch.tensor([[0, 0, 10, 10], [10, 10, 20, 20], [32, 32, 38, 42], [8, 8, 4, 4.0]])
    gt = torch.tensor([[0, 0, 10, 20], [0, 10, 10, 10], [10, 10, 20, 20], [8, 8, 4, 4.0]])
    actual = npu.npu_ciou(boxes.npu(), gt.npu(), True, False, 0, True).cpu()
    torch.testing.assert_close(actual, torch.tensor([[-0.0794, 0.3052, -0.0610, -0.1021]]), rtol=0, atol=1e-4)


def test_float16_boxes_give_a_float16_result():
    found = npu.npu_diou(random_boxes(3, 0).half().npu(), random_boxes(3, 1).half().npu(), True)
    assert found.dtype == torch.half


@pytest.mark.parametrize("kind", ["diou", "ciou"])
def test_a_backward_the_device_does_not_have_is_refused(kind):
    boxes = random_boxes(3, 0).npu().requires_grad_()
    result = getattr(npu, f"npu_{kind}")(boxes, random_boxes(3, 1).npu(), False, False)
    with pytest.raises(RuntimeError, match="only supports trans=True"):
        result.sum().backward()


@pytest.mark.parametrize("arguments", [(False, False, 0), (True, True, 0), (True, False, 1)])
def test_giou_takes_only_what_the_device_takes(arguments):
    with pytest.raises(RuntimeError, match="backward only supports"):
        npu.npu_giou(random_boxes(3, 0).npu(), random_boxes(3, 1).npu(), *arguments)


def test_the_backward_operators_may_be_called_by_name():
    boxes, gt = random_boxes(4, 0), random_boxes(4, 1)
    leaves = [on_npu(boxes.clone().requires_grad_()), on_npu(gt.clone().requires_grad_())]
    result = npu._npu_ciou(*leaves, True, False, 0, True)
    seed = torch.ones(1, 4)
    found = npu.npu_ciou_backward(seed.npu(), leaves[0].detach(), leaves[1].detach(), result[1], True, False, 0)
    result[0].backward(seed.npu())
    for mine, leaf in zip(found, leaves, strict=True):
        torch.testing.assert_close(mine.cpu(), leaf.grad.cpu())
