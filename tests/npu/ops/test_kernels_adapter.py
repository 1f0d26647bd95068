"""What the adapter does otherwise than PyTorch: kinds and words of errors, shapes, assignments to host memory."""

import pytest
import torch
from torch.nn import functional

from jumar.device import DevicePlan, activate, emulate

activate(DevicePlan(real="never", unsupported="fallback"))

REDUCTIONS = {
    "sum": lambda x: x.sum(-3),
    "mean": lambda x: x.mean(2),
    "norm": lambda x: torch.norm(x, 1, 2),
    "prod": lambda x: x.prod(2),
    "argmax": lambda x: x.argmax(2),
    "out=": lambda x: torch.sum(x, 2, out=torch.empty(0, device=x.device)),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_wrong_dimension_of_a_reduction_is_a_runtime_error(name):
    with pytest.raises(RuntimeError, match=r"Dimension out of range[\s\S]*ERR01001 OPS invalid parameter"):
        REDUCTIONS[name](torch.ones(2, 3).npu())


def test_a_wrong_dimension_of_another_operator_stays_an_index_error():
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.ones(2, 3).npu().softmax(2)


def test_errors_are_short_where_the_environment_asks_for_it(monkeypatch):
    monkeypatch.setenv("TORCH_NPU_COMPACT_ERROR_OUTPUT", "1")
    with pytest.raises(RuntimeError, match=r"but got 2\)$"):
        torch.ones(2, 3).npu().sum(2)


def test_words_of_pooling_division_interpolation_and_memory():
    x = torch.ones(1, 2, 4, 4).npu()
    with pytest.raises(RuntimeError, match="output size must be 2"):
        functional.adaptive_avg_pool2d(x, (2, 2, 2))
    with pytest.raises(RuntimeError, match=r"rounding_mode[\s\S]*ERR01001"):
        torch.div(x, x, rounding_mode="up")
    with pytest.raises(RuntimeError, match="CheckShape failed"):
        torch.ones(2, 1).npu().lerp_(torch.ones(2, 6).npu(), 1)
    with pytest.raises(TypeError, match="ERR00002 PTA invalid type"):
        torch.npu.set_per_process_memory_fraction(1)


def test_pooling_to_a_size_trains_as_on_the_cpu():
    x = torch.randn(2, 3, 7, 5)
    on_npu, reference = x.npu().requires_grad_(), x.clone().requires_grad_()
    for tensor in (on_npu, reference):
        functional.adaptive_avg_pool2d(tensor, (3, 2)).square().sum().backward()
    torch.testing.assert_close(on_npu.grad.cpu(), reference.grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_an_inference_of_batch_norm_returns_statistics_of_each_channel(dtype):
    x, channels = torch.randn(3, 2, 4).to(dtype).npu(), torch.rand(4, 2).npu()
    result, mean, invstd = torch.native_batch_norm(x, *channels[:2], channels[2], channels[3], False, 0.1, 1e-5)
    assert (result.shape, mean.shape, invstd.shape) == (x.shape, (2,), (2,))
    assert {mean.device.type, invstd.device.type} == {"npu"}


@pytest.mark.parametrize("accumulate", [False, True])
def test_host_memory_is_written_by_indices_of_the_npu(accumulate):
    x, places, values = torch.randn(6, 3), torch.tensor([4, 0, 4]), torch.randn(3, 3)
    found = x.clone().index_put_((places.npu(),), values, accumulate=accumulate)
    assert found.device.type == "cpu"
    assert torch.equal(found, x.clone().index_put_((places,), values, accumulate=accumulate))


def test_host_memory_is_not_written_with_values_of_the_npu():
    with pytest.raises(RuntimeError, match=r"device|cpu"):
        torch.randn(6).index_put_((torch.tensor([1]).npu(),), torch.ones(1).npu())


def test_a_gradient_does_not_need_results_that_its_formula_does_not_read():
    x, weight = torch.randn(3, 4), torch.randn(5, 4)
    on_npu, reference = weight.npu().requires_grad_(), weight.clone().requires_grad_()
    scaled = torch.ops.npu.npu_linear(x.npu(), on_npu)
    scaled *= 3
    scaled.sum().backward()
    (functional.linear(x, reference) * 3).sum().backward()
    torch.testing.assert_close(on_npu.grad.cpu(), reference.grad)


def test_a_result_that_a_formula_reads_must_not_be_written():
    x = torch.randn(3, 4).npu().requires_grad_()
    result = torch.ops.npu.npu_silu(x)
    result *= 3
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_grouped_products_need_to_know_along_what_the_groups_lie():
    x, weight = [torch.randn(4, 8).half().npu()], [torch.randn(8, 2).half().npu()]
    with pytest.raises(RuntimeError, match="Requires manual passing group_type"):
        torch.ops.npu.npu_grouped_matmul(x, weight)
    with pytest.raises(RuntimeError, match=r"The group type must be -1, 0 or 2, but now is \[3\]"):
        torch.ops.npu.npu_grouped_matmul(x, weight, group_type=3)


def test_swapped_memory_is_not_the_devices_and_computes():
    before = torch.npu.memory_allocated()
    tensor = torch.ops.npu.empty_with_swapped_memory([64, 64], dtype=torch.float16)
    assert (tensor.device.type, tensor.dtype, torch.npu.memory_allocated()) == ("npu", torch.float16, before)
    assert torch.equal((tensor.fill_(2) * 3).cpu(), torch.full((64, 64), 6.0).half())
    with pytest.raises(RuntimeError, match="npu"):
        torch.ops.npu.empty_with_swapped_memory([2], device=torch.device("cpu"))


def test_scores_of_a_float16_prompt_are_float16():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 32, 64).half() / 4 for _ in range(3))
    q[..., 0], k[..., 0] = 16, 64  # scores about 1024, where float16 has integers only
    scores = q.float() @ k.float().transpose(2, 3)
    rounded, exact = ((kept.float() * 2).softmax(-1) @ v.float() for kept in (scores.half(), scores))
    options = {"num_heads": 2, "input_layout": "BNSD", "scale_value": 2.0, "next_tokens": 65535}
    found = torch.ops.npu.npu_prompt_flash_attention(q.npu(), k.npu(), v.npu(), **options).cpu().float()
    torch.testing.assert_close(found, rounded, rtol=2e-3, atol=2e-3)
    assert not torch.allclose(found, exact, rtol=2e-2, atol=2e-2)


def test_an_empty_storage_of_a_storage_is_on_its_device():
    assert torch.ones(3).npu().untyped_storage().new().device.type == "npu"
    assert torch.ones(3).untyped_storage().new().device.type == "cpu"


def test_the_weighted_count_of_halves_has_its_type_after_an_empty_one():
    with emulate(soc="Ascend910B1"):
        empty = torch.bincount(torch.zeros(0, dtype=torch.int8).npu(), torch.zeros(0).half().npu())
        found = torch.bincount(torch.tensor([1, 1, 2]).npu(), torch.ones(3).half().npu())
    assert (empty.dtype, found.dtype) == (torch.int64, torch.float64)


def test_lists_take_their_factors_as_one_tensor_of_the_host():
    lists = [[torch.randn(5, 7).half() for _ in range(3)] for _ in range(3)]
    factors = torch.randn(3).half()
    with emulate(soc="Ascend910B1"):
        found = torch._foreach_addcdiv(*[[item.npu() for item in items] for items in lists], factors)
    for i, (x, one, other) in enumerate(zip(*lists, strict=True)):
        assert torch.equal(found[i].cpu(), x + one / other * factors[i])


def test_the_gradient_of_a_maximum_distance_goes_where_the_rounded_distance_is_reached():
    generator = torch.Generator().manual_seed(3)
    one, other = (torch.rand(n, 10, generator=generator).half() for n in (5, 4))
    x = one.npu().requires_grad_()
    with emulate(soc="Ascend910B1"):
        torch.cdist(x, other.npu(), float("inf")).sum().backward()
    difference = one.float()[:, None] - other.float()
    reached = difference.abs() >= difference.abs().amax(-1, keepdim=True).half().float()
    assert torch.equal(x.grad.cpu(), (difference.sign() * reached).sum(1).half())


def test_one_axis_of_positions_takes_both_modes_of_the_cache():
    query, cache = torch.randn(3, 16).npu(), torch.randn(8, 8).npu()
    given = (torch.tensor([4, 0, 7]).npu(), query, query, cache, 8)
    found = [torch.ops.npu.npu_mrope(*given, cache_mode=mode)[0].cpu() for mode in ("default", "interleave")]
    assert torch.equal(*found)
    with pytest.raises(RuntimeError, match="cache_mode only support default or interleave"):
        torch.ops.npu.npu_mrope(*given, cache_mode="other")
