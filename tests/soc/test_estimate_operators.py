"""The cost of single operators follows from shapes, dtypes, formats and the chip."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.soc.estimate import Conversion, Cost, OperatorShape, TensorShape, operator_cost, software
from jumar.soc.estimate.classes import classify
from jumar.soc.profiles import SOCS, get_soc

A1, A2 = get_soc("Ascend910A"), get_soc("Ascend910B1")


def matmul(m: int, k: int, n: int, dtype: str = "float16") -> OperatorShape:
    left, right, out = (TensorShape(shape, dtype) for shape in ((m, k), (k, n), (m, n)))
    return OperatorShape("aten::mm", (left, right), (out,))


def elementwise(name: str, shape: tuple[int, ...], dtype: str = "float16", **more: object) -> OperatorShape:
    tensor = TensorShape(shape, dtype, **more)  # type: ignore[arg-type]
    return OperatorShape(f"aten::{name}", (tensor,), (TensorShape(shape, dtype),))


def test_a_large_half_product_is_bound_by_the_cube_and_below_the_peak() -> None:
    cost = operator_cost(matmul(8192, 8192, 8192), A2)
    flops = 2 * 8192**3
    assert (cost.core, cost.bound_by) == ("AI_CORE", "cube")
    rate = flops / (cost.cube_us * 1e-6)
    assert 0.6 * 353e12 < rate <= 373e12  # the profile's peak; 24 cores x 4096 x 2 x 1.85 GHz


def test_a_thin_product_is_bound_by_memory() -> None:
    cost = operator_cost(matmul(8, 16384, 16384), A2)
    assert cost.bound_by == "memory"
    assert cost.memory_us > cost.cube_us


def test_sizes_are_padded_to_blocks_of_sixteen() -> None:
    assert operator_cost(matmul(1009, 2033, 1000), A2).cube_us == operator_cost(matmul(1024, 2048, 1008), A2).cube_us


def test_float32_costs_the_split_cube_four_times_and_the_old_one_casts() -> None:
    half, full = operator_cost(matmul(4096, 4096, 4096), A2), operator_cost(matmul(4096, 4096, 4096, "float32"), A2)
    assert pytest.approx(4, rel=0.02) == full.cube_us / half.cube_us
    old = operator_cost(matmul(4096, 4096, 4096, "float32"), A1)
    assert [kernel.type for kernel in old.kernels] == ["Cast", "Cast", "MatMulV2", "Cast"]
    assert old.cast_us > 0
    assert old.cube_us == operator_cost(matmul(4096, 4096, 4096), A1).cube_us


def test_hf32_halves_a_float32_product_and_is_off_for_products_by_default() -> None:
    shape = matmul(4096, 4096, 4096, "float32")
    on = replace(software(A2), allow_hf32_matmul=True)
    assert pytest.approx(0.5, rel=0.02) == operator_cost(shape, A2, on).cube_us / operator_cost(shape, A2).cube_us


@given(st.integers(1, 4096), st.integers(1, 4096), st.integers(1, 4096), st.sampled_from(["m", "k", "n"]))
def test_a_larger_product_never_costs_less(m: int, k: int, n: int, grown: str) -> None:
    sizes = {"m": m, "k": k, "n": n}
    larger = sizes | {grown: sizes[grown] + 64}
    assert operator_cost(matmul(**sizes), A1).cube_us <= operator_cost(matmul(**larger), A1).cube_us * 1.0000001


def test_a_depthwise_convolution_computes_a_block_of_channels_for_each_channel() -> None:
    def conv(groups: int) -> Cost:
        data, weight = TensorShape((32, 64, 56, 56)), TensorShape((64, 64 // groups, 3, 3))
        shape = OperatorShape("aten::convolution", (data, weight), (data,), (("groups", groups),))
        return operator_cost(shape, A1)

    assert conv(64).kernels[0].type == "DepthwiseConv2D"
    assert conv(1).kernels[0].type == "Conv2D"
    # 4 blocks of 16 channels, each against itself, instead of each against all 4
    assert pytest.approx(conv(1).cube_us / 4, rel=0.1) == conv(64).cube_us


def test_the_backward_of_a_convolution_runs_a_kernel_for_each_gradient_wanted() -> None:
    grad, data, weight = TensorShape((8, 32, 28, 28)), TensorShape((8, 16, 28, 28)), TensorShape((32, 16, 3, 3))

    def types(mask: tuple[bool, bool, bool]) -> list[str]:
        shape = OperatorShape("aten::convolution_backward", (grad, data, weight), (), (("output_mask", mask),))
        return [kernel.type for kernel in operator_cost(shape, A1).kernels]

    assert types((True, True, False)) == ["Conv2DBackpropInput", "Conv2DBackpropFilter"]
    assert types((False, True, True)) == ["Conv2DBackpropFilter", "BiasAddGrad"]


def test_a_small_operator_is_bound_by_its_launch() -> None:
    cost = operator_cost(elementwise("add.Tensor", (8,)), A2)
    assert (cost.core, cost.bound_by) == ("AI_VECTOR_CORE", "launch")
    assert pytest.approx(cost.launch_us, rel=0.01) == cost.total_us


def test_large_data_streams_from_memory_and_small_from_l2() -> None:
    small, large = (
        operator_cost(elementwise("add.Tensor", (2**22,)), A2),
        operator_cost(elementwise("relu", (2**29,)), A2),
    )
    assert small.bound_by == "l2"
    assert large.bound_by == "memory"
    assert pytest.approx(2 * 2**29 * 2 / (1.6e6 * 0.6), rel=0.001) == large.memory_us


def test_transcendental_functions_cost_more_instructions() -> None:
    assert operator_cost(elementwise("gelu", (2**20,)), A1).vector_us == pytest.approx(
        12 * operator_cost(elementwise("neg", (2**20,)), A1).vector_us
    )


def test_conversions_are_kernels_of_their_own_before_and_after() -> None:
    tensor = TensorShape((64, 58, 28, 28), "float16", "NC1HWC0")
    before = Conversion("NCHW", "NC1HWC0", tensor.shape, "float16")
    after = Conversion("NC1HWC0", "NCHW", tensor.shape, "float16", is_result=True)
    cost = operator_cost(OperatorShape("aten::relu", (tensor,), (tensor,), conversions=(before, after)), A1)
    assert [kernel.type for kernel in cost.kernels] == ["TransData", "Relu", "TransData"]
    assert cost.transdata_us == cost.kernels[0].duration_us + cost.kernels[2].duration_us
    # 58 channels are stored as 64
    assert tensor.stored_bytes == 64 * 64 * 28 * 28 * 2


def test_a_strided_input_is_made_contiguous_first_but_not_for_a_transposed_matrix() -> None:
    sliced = elementwise("relu", (64, 58, 28, 28), run=58 * 784)
    assert [kernel.type for kernel in operator_cost(sliced, A2).kernels] == ["ViewCopy", "Relu"]
    transposed = TensorShape((512, 512), run=1, transposed=True)
    shape = OperatorShape("aten::mm", (TensorShape((512, 512)), transposed), (TensorShape((512, 512)),))
    assert [kernel.type for kernel in operator_cost(shape, A2).kernels] == ["MatMulV3"]


def test_an_older_adapter_copies_strided_tensors_on_the_ai_cpu() -> None:
    sliced = elementwise("relu", (512, 58, 28, 28), run=58 * 784)
    old = replace(software(A1), strided_copy="AI_CPU")
    slow, fast = operator_cost(sliced, A1, old), operator_cost(sliced, A1)
    assert slow.kernels[0].core == "AI_CPU"
    assert slow.contiguous_us > 20 * fast.contiguous_us


def test_older_gathers_move_rows_of_odd_length_element_by_element() -> None:
    def gather(width: int) -> OperatorShape:
        data, index = TensorShape((256, 116, width, width)), TensorShape((116,), "int32")
        return OperatorShape("aten::index_select", (data, index), (data,), (("dim", 1),))

    old = replace(software(A1), unaligned_gather="scalar")
    assert operator_cost(gather(28), A1, old).bound_by == "memory"  # rows of 1568 bytes
    assert operator_cost(gather(14), A1, old).bound_by == "scalar"  # rows of 392 bytes
    assert operator_cost(gather(14), A1).bound_by == "memory"


@pytest.mark.parametrize("name", ["nonzero", "masked_select", "bincount"])
def test_operators_of_the_ai_cpu_run_there(name: str) -> None:
    cost = operator_cost(elementwise(name, (100_000,)), A2)
    assert cost.core == "AI_CPU"
    assert cost.total_us > 20


def test_dtypes_that_ai_core_lacks_run_on_the_ai_cpu() -> None:
    assert operator_cost(elementwise("mul.Tensor", (1000,), "float64"), A2).core == "AI_CPU"
    assert operator_cost(elementwise("topk", (1000,), "int64"), A2).core == "AI_CPU"
    assert operator_cost(elementwise("topk", (1000,), "float32"), A2).core == "AI_VECTOR_CORE"


def test_a_fallback_copies_to_the_host_and_back_and_waits() -> None:
    shape = elementwise("special_thing", (2**20,), "float32")
    cost = operator_cost(replace(shape, on_host=True), A2)
    assert cost.waits
    assert pytest.approx(2 * (10 + 2**22 / 6400)) == cost.transfer_us
    assert cost.host_us > 1000


def test_a_copy_to_the_device_waits_unless_it_is_asynchronous() -> None:
    shape = OperatorShape("aten::_to_copy", transfer="host-to-device", transfer_bytes=16_000_000)
    pinned = replace(shape, attributes=(("pinned", True), ("non_blocking", True)))
    assert (operator_cost(shape, A2).waits, operator_cost(pinned, A2).waits) == (True, False)
    assert pytest.approx(10 + 1000) == operator_cost(pinned, A2).transfer_us


def test_views_run_nothing() -> None:
    cost = operator_cost(OperatorShape("aten::view", (TensorShape((4, 4)),), (TensorShape((16,)),)), A2)
    assert (cost.kernels, cost.total_us, cost.core) == ((), 0.0, "NONE")
    assert cost.host_us > 0


def test_foreach_is_one_kernel_through_aclnn_and_one_a_tensor_before() -> None:
    tensors = tuple(TensorShape((size,)) for size in (8, 16, 24))
    shape = OperatorShape("aten::_foreach_add_.Scalar", tensors, (), (("num_lists", 1),))
    assert len(operator_cost(shape, A2).kernels) == 1
    assert len(operator_cost(shape, A1).kernels) == 3


def test_fused_attention_runs_on_both_units_and_a_causal_mask_halves_it() -> None:
    tensor = TensorShape((8, 16, 2048, 128))
    plain = operator_cost(OperatorShape("npu::npu_fusion_attention", (tensor,) * 3, (tensor,)), A2)
    causal = OperatorShape("npu::npu_fusion_attention", (tensor,) * 3, (tensor,), (("sparse_mode", 3),))
    assert plain.core == "MIX_AIC"
    assert plain.cube_us > 2 * 2 * 8 * 16 * 2048**2 * 128 / 373e12 * 1e6
    assert pytest.approx(plain.cube_us / 2) == operator_cost(causal, A2).cube_us


def test_an_all_reduce_costs_more_on_more_ranks_and_less_for_less_data() -> None:
    def reduce(num_ranks: int, size: int) -> float:
        tensor = TensorShape((size,), "float32")
        return operator_cost(OperatorShape("hccl::allreduce", (tensor,), (tensor,), num_ranks=num_ranks), A1).total_us

    assert reduce(1, 2**20) == 0.0
    assert reduce(2, 2**24) < reduce(8, 2**24) < reduce(16, 2**24)
    assert reduce(8, 2**20) < reduce(8, 2**24)
    # 64 MiB, ring of 8: 64 * 2 * 7/8 / 56 ms and 14 rounds of 0.01 ms, jitter 0.1 ms
    assert pytest.approx(2000 + 140 + 7 + 1.2 + 100, rel=0.001) == reduce(8, 2**24)


def test_operators_that_the_table_lacks_are_elementwise() -> None:
    found = classify("npu::npu_brand_new_thing")
    assert (found.kind, found.known, found.graph_type) == ("elementwise", False, "BrandNewThing")
    assert classify("aten::add_.Tensor").known


@pytest.mark.parametrize("soc", sorted(SOCS))
def test_every_chip_has_figures_and_names_those_that_are_not_its_own(soc: str) -> None:
    profile = get_soc(soc)
    cost = operator_cost(matmul(512, 512, 512), profile)
    assert cost.total_us > 0
    assert cost.is_estimate
    assert (profile.frequency_mhz is None) == any(text.startswith("clock") for text in cost.assumed)


def test_a_result_says_that_it_is_an_estimate_when_it_is_written() -> None:
    written = operator_cost(matmul(64, 64, 64), get_soc("Ascend910B3")).to_dict()
    assert written["is_estimate"] is True
    assert any("Ascend910B1" in text for text in written["assumed"])


def test_equal_calls_are_estimated_once() -> None:
    assert operator_cost(matmul(64, 64, 64), A2) is operator_cost(matmul(64, 64, 64), A2)
