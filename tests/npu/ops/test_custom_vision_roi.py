"""Pooling of regions and deformable convolution against loops over pixels, and the vendor's published values."""

from __future__ import annotations

import math

import pytest
import torch
from custom_reference import leaf, on_npu, same
from torch._subclasses.fake_tensor import FakeTensorMode

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))
npu = torch.ops.npu


def bilinear(image, y, x):
    """The value of a (h, w) image at a place, as region pooling takes it."""
    height, width = image.shape
    if y < -1 or y > height or x < -1 or x > width:
        return torch.zeros(())
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    fy, fx = y - top, x - left
    upper = image[top, left] * (1 - fx) + image[top, right] * fx
    return upper * (1 - fy) + (image[bottom, left] * (1 - fx) + image[bottom, right] * fx) * fy


def aligned(x, rois, scale, height, width, samples, mode):
    found = []
    for image, x1, y1, x2, y2 in rois.tolist():
        more, move = (scale if mode == 1 else 0), (0.5 if mode > 1 else 0)
        left, top = x1 * scale - move, y1 * scale - move
        w, h = x2 * scale + more - move - left, y2 * scale + more - move - top
        if mode < 2:
            w, h = max(w, 1.0), max(h, 1.0)
        bw, bh = w / width, h / height
        across, down = (samples or math.ceil(bw)), (samples or math.ceil(bh))
        for channel in x[int(image)]:
            for i in range(height):
                for j in range(width):
                    values = [bilinear(channel, top + i * bh + (a + 0.5) * bh / down,
                                       left + j * bw + (b + 0.5) * bw / across)
                              for a in range(down) for b in range(across)]  # fmt: skip
                    found.append(torch.stack(values).mean() if values else torch.zeros(()))
    return torch.stack(found).reshape(len(rois), x.shape[1], height, width)


ROIS = torch.tensor([[0, 1.0, 2.0, 9.0, 11.0], [1, -3.0, -6.0, 30.0, 40.0], [1, 4.0, 4.0, 4.2, 4.1], [0, 0, 0, 15, 3]])


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("samples", [0, 2])
def test_roi_align_averages_samples_and_its_adjoint_spreads_them(mode, samples):
    x = leaf(2, 3, 6, 5)
    expected = aligned(x, ROIS, 0.5, 2, 3, samples, mode)
    actual = npu.npu_roi_align(on_npu(x.detach()), ROIS.npu(), 0.5, 2, 3, samples, mode).cpu()
    torch.testing.assert_close(actual, expected.detach(), rtol=1e-4, atol=1e-5)
    seed = torch.randn(expected.shape)
    (wanted,) = torch.autograd.grad(expected, x, seed)
    found = npu.npu_roi_alignbk(seed.npu(), ROIS.npu(), list(x.shape), 3, 2, 0.5, samples, mode).cpu()
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_the_documented_roi_align():
    x = torch.arange(1.0, 37).reshape(1, 1, 6, 6)
    rois = torch.tensor([[0, -2.0, -2.0, 22.0, 22.0]])
    expected = torch.tensor([[[[4.5, 6.5, 8.5], [16.5, 18.5, 20.5], [28.5, 30.5, 32.5]]]])
    torch.testing.assert_close(npu.npu_roi_align(x.npu(), rois.npu(), 0.25, 3, 3, 2, 0).cpu(), expected)
    halved = torch.tensor([[[[2.75, 4.5, 6.5], [13.25, 15, 17], [25.25, 27, 29]]]])
    torch.testing.assert_close(npu.npu_roi_align(x.npu(), rois.npu(), 0.25, 3, 3, 2, 2).cpu(), halved)


def test_no_regions_have_no_features_and_no_gradient():
    x, none = torch.ones(1, 2, 4, 4).npu(), torch.empty(0, 5).npu()
    features = npu.npu_roi_align(x, none, 1.0, 2, 2, 2, 0)
    assert features.shape == (0, 2, 2, 2)
    assert npu.npu_roi_alignbk(features, none, [1, 2, 4, 4], 2, 2, 1.0, 2).cpu().eq(0).all()


def pooled(x, rois, scale, group, dims):
    found = []
    for image, x1, y1, x2, y2 in rois.transpose(1, 2).reshape(-1, 5).tolist():
        left, top = round(x1) * scale, round(y1) * scale
        w, h = max(round(x2 + 1) * scale - left, 0.1) / group, max(round(y2 + 1) * scale - top, 0.1) / group
        for d in range(dims):
            for p in range(group):
                for q in range(group):
                    rows = range(max(math.floor(top + p * h), 0), min(math.ceil(top + (p + 1) * h), x.shape[2]))
                    columns = range(max(math.floor(left + q * w), 0), min(math.ceil(left + (q + 1) * w), x.shape[3]))
                    channel = x[int(image), (d * group + p) * group + q]
                    cells = [channel[i, j] for i in rows for j in columns]
                    found.append(torch.stack(cells).mean() if cells else torch.zeros(()))
    return torch.stack(found).reshape(-1, dims, group, group)


@pytest.mark.parametrize("group", [1, 3])
def test_position_sensitive_pooling_and_its_gradient(group):
    rois = torch.stack([torch.tensor([[b, 3, 2, 9, 9], [b, 1.2, 4.7, 20, 30], [b, 50, 50, 60, 60]]).T for b in (0, 1)])
    x = leaf(2, 2 * group * group, 9, 7)
    same(
        lambda t: npu.npu_ps_roi_pooling(t, rois.npu(), 0.5, group, 2),
        lambda t: pooled(t, rois, 0.5, group, 2),
        x, rtol=1e-4, atol=1e-5,
    )  # fmt: skip


def deformed(x, weight, offset, bias, kernel, stride, padding, dilation, groups, dgroups, modulated):
    """Loops over every sample; zero outside the image, unlike pooling."""
    n, channels, height, width = x.shape
    (kh, kw), (sh, sw), (dh, dw) = kernel, stride, dilation
    top, bottom, left, right = padding
    oh = (height + top + bottom - (kh - 1) * dh - 1) // sh + 1
    ow = (width + left + right - (kw - 1) * dw - 1) // sw + 1
    taps = dgroups * kh * kw
    samples = []
    for b in range(n):
        for c in range(channels):
            g = c // (channels // dgroups)
            for i in range(oh):
                for a in range(kh):
                    for j in range(ow):
                        for e in range(kw):
                            at = g * kh * kw + a * kw + e
                            y = i * sh - top + a * dh + offset[b, taps + at, i, j]
                            z = j * sw - left + e * dw + offset[b, at, i, j]
                            value = torch.zeros(())
                            y0, z0 = math.floor(y.item()), math.floor(z.item())
                            for yy in (y0, y0 + 1):
                                for zz in (z0, z0 + 1):
                                    if 0 <= yy < height and 0 <= zz < width:
                                        value = value + x[b, c, yy, zz] * (1 - (y - yy).abs()) * (1 - (z - zz).abs())
                            samples.append(value * offset[b, 2 * taps + at, i, j] if modulated else value)
    deep = torch.stack(samples).reshape(n, channels, oh * kh, ow * kw)
    return torch.nn.functional.conv2d(deep, weight, bias, stride=kernel, groups=groups), deep


@pytest.mark.parametrize("modulated", [True, False])
@pytest.mark.parametrize(("groups", "dgroups"), [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_deformable_convolution_and_its_gradients(modulated, groups, dgroups, with_bias):
    torch.manual_seed(3)
    kernel, stride, padding, dilation = (2, 3), (2, 1), (1, 0, 2, 1), (1, 2)
    x, weight = leaf(2, 4, 5, 4), leaf(2, 4 // groups, *kernel)
    offset = leaf(2, (3 if modulated else 2) * dgroups * 6, 3, 3, scale=1.5)
    bias = leaf(2) if with_bias else None
    same(
        lambda *t: npu.npu_deformable_conv2d(
            *t, kernel, (1, 1, *stride), padding, (1, 1, *dilation), groups, dgroups, modulated
        )[0],
        lambda *t: deformed(*t, kernel, stride, padding, dilation, groups, dgroups, modulated)[0],
        x, weight, offset, bias, rtol=1e-4, atol=1e-4,
    )  # fmt: skip


def test_the_samples_of_a_deformable_convolution_are_returned():
    x, weight, offset = torch.randn(1, 2, 4, 4), torch.randn(3, 2, 3, 3), torch.randn(1, 27, 4, 4)
    arguments = ((3, 3), (1, 1, 1, 1), (1, 1, 1, 1))
    _, samples = npu.npu_deformable_conv2d(x.npu(), weight.npu(), offset.npu(), None, *arguments)
    expected = deformed(x, weight, offset, None, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1, 1, True)[1]
    torch.testing.assert_close(samples.cpu(), expected)


def test_zero_offsets_make_a_plain_convolution():
    x, weight = torch.randn(2, 4, 6, 7), torch.randn(3, 4, 3, 3)
    offset = torch.cat([torch.zeros(2, 18, 6, 7), torch.ones(2, 9, 6, 7)], 1)
    found, _ = npu.npu_deformable_conv2d(x.npu(), weight.npu(), offset.npu(), None, [3, 3], [1, 1, 1, 1], [1, 1, 1, 1])
    torch.testing.assert_close(found.cpu(), torch.conv2d(x, weight, padding=1), rtol=1e-4, atol=1e-4)


def test_offsets_of_a_wrong_size_are_refused():
    x, weight = torch.randn(1, 2, 4, 4).npu(), torch.randn(3, 2, 3, 3).npu()
    with pytest.raises(RuntimeError, match="offset must be of the output's size"):
        npu.npu_deformable_conv2d(x, weight, torch.randn(1, 27, 2, 2).npu(), None, [3, 3], [1] * 4, [1] * 4)


def test_shapes_are_known_to_fake_tensors():
    with FakeTensorMode():
        x, rois = torch.empty(2, 8, 6, 5, device="npu"), torch.empty(4, 5, device="npu")
        assert npu.npu_roi_align(x, rois, 0.5, 2, 3, 2, 0).shape == (4, 8, 2, 3)
        assert npu.npu_ps_roi_pooling(x, torch.empty(2, 5, 3, device="npu"), 0.5, 2, 2).shape == (6, 2, 2, 2)
        found = npu.npu_deformable_conv2d(
            x,
            torch.empty(4, 8, 3, 3, device="npu"),
            torch.empty(2, 27, 6, 5, device="npu"),
            None,
            [3, 3],
            [1] * 4,
            [1] * 4,
        )
        assert [tuple(item.shape) for item in found] == [(2, 4, 6, 5), (2, 8, 18, 15)]


def test_a_region_of_an_image_that_is_not_there_pools_zeros():
    x = torch.ones(1, 4, 3, 3).npu().requires_grad_()
    rois = torch.tensor([[[7.0], [0.0], [0.0], [2.0], [2.0]]]).npu()
    found = torch.ops.npu.npu_ps_roi_pooling(x, rois, 1.0, 2, 1)
    found.sum().backward()
    assert found.cpu().abs().sum().item() == x.grad.cpu().abs().sum().item() == 0
