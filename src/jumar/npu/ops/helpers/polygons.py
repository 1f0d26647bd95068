"""Areas of intersections of convex polygons with four corners, many at a time."""

from __future__ import annotations

import torch

Tensor = torch.Tensor


def corners(boxes: Tensor, trans: bool) -> Tensor:
    """Return the corners (..., 4, 2), counter-clockwise, of boxes (..., 5) with an angle in degrees.

    Boxes are centre, width, height and angle, or with `trans` the corners (x1, y1, x2, y2) before the turn
    around the centre.
    """
    if trans:
        centre, size = (boxes[..., :2] + boxes[..., 2:4]) / 2, boxes[..., 2:4] - boxes[..., :2]
    else:
        centre, size = boxes[..., :2], boxes[..., 2:4]
    angle = torch.deg2rad(boxes[..., 4])
    cosine, sine = torch.cos(angle).unsqueeze(-1), torch.sin(angle).unsqueeze(-1)
    unit = boxes.new_tensor([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    x, y = (unit * size.unsqueeze(-2)).unbind(-1)
    turned = torch.stack([x * cosine - y * sine, x * sine + y * cosine], -1)
    return turned + centre.unsqueeze(-2)


def _cross(a: Tensor, b: Tensor) -> Tensor:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _inside(points: Tensor, polygon: Tensor, eps: float) -> Tensor:
    """Return which points (..., p, 2) are in the convex counter-clockwise polygon (..., 4, 2), edge included."""
    edges = polygon.roll(-1, -2) - polygon
    to_points = points.unsqueeze(-2) - polygon.unsqueeze(-3)
    return (_cross(edges.unsqueeze(-3), to_points) >= -eps).all(-1)


def _crossings(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return the points (..., 16, 2) where edges cross, and which of them exist."""
    a, b = first.unsqueeze(-2), second.unsqueeze(-3)
    along_a, along_b = first.roll(-1, -2).unsqueeze(-2) - a, second.roll(-1, -2).unsqueeze(-3) - b
    area = _cross(along_a, along_b)
    parallel = area.abs() < torch.finfo(area.dtype).tiny
    safe = torch.where(parallel, torch.ones_like(area), area)
    t, u = _cross(b - a, along_b) / safe, _cross(b - a, along_a) / safe
    meets = ~parallel & (t >= 0) & (t <= 1) & (u >= 0) & (u <= 1)
    points = a + t.unsqueeze(-1) * along_a
    return points.flatten(-3, -2), meets.flatten(-2)


def intersection_area(first: Tensor, second: Tensor) -> Tensor:
    """Return the area that convex polygons have in common: corners (..., 4, 2) each, counter-clockwise.

    It is the area of the hull of all corners inside the other polygon and all crossings of edges, which lie
    on one convex outline: sorted by their angle around their mean, they are its corners in order.
    """
    first, second = first.double(), second.double()
    first, second = first + torch.zeros_like(second), second + torch.zeros_like(first)
    eps = 1e-9 * max(1.0, float(torch.cat([first.flatten(), second.flatten()]).abs().max()) if first.numel() else 1.0)
    crossings, meets = _crossings(first, second)
    points = torch.cat([first, second, crossings], -2)
    real = torch.cat([_inside(first, second, eps), _inside(second, first, eps), meets], -1)
    num = real.sum(-1, keepdim=True).clamp(min=1)
    mean = (points * real.unsqueeze(-1)).sum(-2) / num
    spokes = torch.where(real.unsqueeze(-1), points - mean.unsqueeze(-2), torch.zeros_like(points))
    order = torch.where(real, torch.atan2(spokes[..., 1], spokes[..., 0]), torch.full_like(spokes[..., 0], 10.0))
    order = order.argsort(-1)
    spokes = spokes.gather(-2, order.unsqueeze(-1).expand_as(spokes))
    kept = real.gather(-1, order)
    spokes = torch.where(kept.unsqueeze(-1), spokes, spokes[..., :1, :])
    return _cross(spokes, spokes.roll(-1, -2)).sum(-1).abs() / 2
