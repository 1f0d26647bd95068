from __future__ import annotations

import pytest

from jumar.soc.support import SupportTables

# The operators of a training step of ResNet-18 (SGD) and of a GPT (AdamW, autocast, attention), as
# recorded on the CPU, forward, backward and optimizer: none of them may be called a fallback.
RESNET_STEP = """
aten::_foreach_add_.List aten::_foreach_mul_.Scalar aten::_log_softmax aten::_log_softmax_backward_data aten::add.Tensor
aten::add_.Tensor aten::addmm aten::clone aten::convolution aten::convolution_backward aten::copy_ aten::detach
aten::div.Scalar aten::eq.Tensor aten::expand aten::fill_.Scalar aten::max_pool2d_with_indices
aten::max_pool2d_with_indices_backward aten::mean.dim aten::mm aten::mul_.Tensor aten::native_batch_norm
aten::native_batch_norm_backward aten::nll_loss_backward aten::nll_loss_forward aten::ones_like aten::relu aten::relu_
aten::sum.dim_IntList aten::t aten::threshold_backward aten::topk aten::view aten::zero_ aten::_local_scalar_dense
aten::_adaptive_avg_pool2d aten::_adaptive_avg_pool2d_backward
""".split()  # noqa: SIM905 - a page of names reads better without quotes

GPT_STEP = """
aten::_softmax aten::_softmax_backward_data aten::_to_copy aten::_unsafe_view aten::arange aten::bmm
aten::embedding aten::embedding_dense_backward aten::gelu aten::gelu_backward aten::masked_fill.Scalar
aten::native_dropout aten::native_dropout_backward aten::native_layer_norm aten::native_layer_norm_backward
aten::split.Tensor aten::transpose.int aten::tril aten::cat aten::slice.Tensor aten::slice_backward aten::select.int
aten::select_backward aten::scalar_tensor aten::stack aten::pow.Tensor_Scalar aten::rsqrt aten::silu
aten::silu_backward aten::linalg_vector_norm aten::_foreach_norm.Scalar aten::_foreach_addcdiv_.ScalarList
aten::_foreach_addcmul_.Scalar aten::_foreach_lerp_.Scalar aten::_foreach_sqrt aten::_foreach_div_.ScalarList
aten::_foreach_mul_.Tensor aten::clamp aten::multinomial aten::unsqueeze aten::as_strided aten::empty.memory_format
aten::empty_strided aten::random_.from aten::normal_ aten::uniform_ aten::bernoulli_.float aten::where.self
aten::_fused_adamw_ aten::_amp_foreach_non_finite_check_and_unscale_ aten::index.Tensor aten::convolution_overrideable
aten::_scaled_dot_product_flash_attention_for_cpu aten::_scaled_dot_product_flash_attention_for_cpu_backward
""".split()  # noqa: SIM905


@pytest.fixture(scope="module")
def tables() -> SupportTables:
    return SupportTables.load("Ascend910B1")


@pytest.mark.parametrize("soc", ["Ascend910B1", "Ascend910_9391", "Ascend950"])
@pytest.mark.parametrize("name", RESNET_STEP + GPT_STEP)
def test_everyday_operators_run_on_the_device(soc: str, name: str) -> None:
    assert SupportTables.load(soc).operator(name).status in ("native", "decomposed")


@pytest.mark.parametrize("name", RESNET_STEP)
def test_a_resnet_step_runs_on_the_first_generation_too(name: str) -> None:
    assert SupportTables.load("Ascend910A").operator(name).status in ("native", "decomposed")


@pytest.mark.parametrize(
    "name", ["aten::convolution", "aten::addmm", "aten::native_batch_norm", "aten::add.Tensor", "aten::native_dropout"]
)
def test_operators_of_the_vendors_table_are_native_with_their_routes(tables: SupportTables, name: str) -> None:
    support = tables.operator(name)
    assert (support.status, support.routes) == ("native", ("acl_op", "op_api"))


@pytest.mark.parametrize("name", ["aten::transpose.int", "aten::permute", "aten::alias", "aten::split.Tensor"])
def test_views_are_native_because_nothing_is_computed(tables: SupportTables, name: str) -> None:
    support = tables.operator(name)
    assert (support.status, support.note) == ("native", "a view: nothing is computed")


def test_a_structured_operator_is_decomposed_into_its_out_form(tables: SupportTables) -> None:
    support = tables.operator("aten::gelu")
    assert support.status == "decomposed"
    assert "aten::gelu.out" in support.through


@pytest.mark.parametrize(
    ("name", "leaf"),
    [
        ("aten::linalg_inv_ex", "aten::linalg_inv_ex.inverse"),
        ("aten::digamma", "aten::digamma.out"),
        ("aten::_linalg_eigh", "aten::_linalg_eigh.eigenvalues"),
    ],
)
def test_a_composite_is_no_better_than_the_operator_it_calls(tables: SupportTables, name: str, leaf: str) -> None:
    support = tables.operator(name)
    assert (support.status, support.through) == ("fallback", (leaf,))


@pytest.mark.parametrize("name", ["aten::_fused_adam_", "aten::poisson", "aten::huber_loss"])
def test_an_operator_with_a_cpu_kernel_alone_falls_back(tables: SupportTables, name: str) -> None:
    assert tables.operator(name).status == "fallback"


def test_an_operator_with_no_kernel_anywhere_is_unsupported(tables: SupportTables) -> None:
    assert tables.operator("aten::cudnn_convolution_add_relu").status == "unsupported"


def test_a_name_that_pytorch_does_not_have_is_unsupported_and_uncertain(tables: SupportTables) -> None:
    support = tables.operator("aten::no_such_operator")
    assert (support.status, support.certain) == ("unsupported", False)


@pytest.mark.parametrize("spelling", ["aten::relu", "aten::relu.default", "aten.relu.default", "relu"])
def test_every_spelling_of_an_overload_is_the_same_operator(tables: SupportTables, spelling: str) -> None:
    assert tables.operator(spelling).name == "aten::relu"


def test_a_name_without_overload_stands_for_the_best_one(tables: SupportTables) -> None:
    support = tables.operator("aten::add")
    assert (support.status, support.name) == ("native", "aten::add")


def test_an_operator_of_another_device_is_judged_by_its_counterpart(tables: SupportTables) -> None:
    support = tables.operator("aten::cudnn_batch_norm")
    assert (support.status, support.through) == ("native", ("aten::native_batch_norm",))


def test_the_first_generation_lacks_operators_registered_for_aclnn_only() -> None:
    support = SupportTables.load("Ascend910A").operator("aten::_fft_r2c")
    assert (support.status, support.certain) == ("unsupported", False)


def test_the_first_generation_takes_the_slow_path_of_foreach_operators() -> None:
    assert SupportTables.load("Ascend910A").operator("aten::_foreach_add.List").status == "decomposed"


def test_ascend950_lacks_operators_of_the_graph_compiler() -> None:
    support = SupportTables.load("Ascend950").operator("aten::slow_conv3d_forward")
    assert support.status == "unsupported"


def test_an_operator_added_in_a_later_release_is_not_there_before() -> None:
    name = "aten::mm.dtype"
    assert SupportTables.load("Ascend910B1", "2.11").operator(name).routes == ("op_api",)
    assert SupportTables.load("Ascend910B1", "2.7").operator(name).routes == ()


def test_custom_operators_of_torch_npu_are_native(tables: SupportTables) -> None:
    assert tables.operator("npu::npu_fusion_attention").status == "native"
    assert tables.operator("npu::npu_no_such_thing").status == "unsupported"


def test_collectives_are_native_and_a_librarys_operators_uncertain(tables: SupportTables) -> None:
    assert tables.operator("c10d::allreduce_").status == "native"
    support = tables.operator("torchvision::nms")
    assert (support.status, support.certain) == ("fallback", False)
