"""`npu_ifmr` finds the scale with the least squared difference; `npu_stride_add` adds blocks of channels."""

import pytest
import torch

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

npu = torch.ops.npu


def search(x, with_offset, **changed):
    low, high = x.min().reshape(1), x.max().reshape(1)
    cumsum = torch.histc(x, 128, low.item(), high.item()).cumsum(0).int()
    given = {"min_percentile": 0.999999, "max_percentile": 0.999999, "search_start": 0.7, "search_end": 1.3}
    given |= {"search_step": 0.01, "with_offset": with_offset, **changed}
    return npu.npu_ifmr(x.npu(), low.npu(), high.npu(), cumsum.npu(), *given.values())


def loss(x, scale, offset):
    quantised = ((x / scale).round() + offset).clamp(-128, 127)
    return ((quantised - offset) * scale - x).square().sum()


@pytest.mark.parametrize("shape", [(2, 2, 3, 4), (5, 5), (300,)])
def test_no_scale_of_the_search_is_better(shape):
    x = torch.rand(shape, generator=torch.Generator().manual_seed(3)) * 2 - 1
    scale, offset = (value.cpu() for value in search(x, with_offset=False))
    assert offset.tolist() == [0.0]
    largest = x.abs().max()
    best = min(loss(x, largest * factor / 127, 0.0) for factor in torch.arange(0.7, 1.3, 0.01))
    assert loss(x, scale, offset) <= best * (1 + 1e-2)


def test_with_an_offset_all_256_numbers_are_used():
    x = torch.linspace(0, 4, 500)
    scale, offset = (value.cpu() for value in search(x, with_offset=True))
    assert scale.item() == pytest.approx(4 / 255, rel=0.02)
    assert offset.item() == -128


def test_two_blocks_are_added_at_their_offsets():
    x, y = torch.arange(4.0).reshape(1, 4, 1, 1, 1), torch.arange(10.0, 14.0).reshape(1, 4, 1, 1, 1)
    found = npu.npu_stride_add(x.npu(), y.npu(), 1, 0, 2).cpu().flatten()
    assert found.tolist() == [11.0, 13.0] + [0.0] * 30


def test_more_blocks_than_there_are_raise():
    with pytest.raises(RuntimeError, match="c1_len blocks"):
        npu.npu_stride_add(torch.ones(1, 1, 1, 1, 1).npu(), torch.ones(1, 1, 1, 1, 1).npu(), 0, 0, 2)
