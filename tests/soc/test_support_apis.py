from __future__ import annotations

import pytest

from jumar.soc.support import SupportTables


@pytest.fixture(scope="module")
def tables() -> SupportTables:
    return SupportTables.load("Ascend910B1")


@pytest.mark.parametrize(
    "name",
    [
        # The top of the vendor's own "unknown API" reports, none of which is unknown.
        "torch.nn.Parameter",
        "torch.autograd.profiler.record_function",
        "torch.autograd.Variable",
        "torch.utils.data.DistributedSampler",
        "torch.utils.data.distributed.DistributedSampler",
        "torch.FloatTensor",
        "torch.distributed.destroy_process_group",
        "torch.set_grad_enabled",
        "torch.optim.Adam.step",
        "torch.compile",
        "torch.amp.GradScaler",
        "torch.amp.autocast",
        "torch.float32",
        "torch.Size",
        "torch.nn.init.kaiming_normal_",
    ],
)
@pytest.mark.parametrize("soc", ["Ascend910B1", "Ascend910A"])
def test_common_names_are_not_called_unknown(soc: str, name: str) -> None:
    assert SupportTables.load(soc).api(name).supported is True


@pytest.mark.parametrize("name", ["torch.relu", "torch.nn.functional.relu", "torch.Tensor.relu_", "torch.nn.ReLU"])
def test_one_function_under_several_names_has_one_answer(tables: SupportTables, name: str) -> None:
    assert tables.api(name).status == "native"


@pytest.mark.parametrize(
    ("name", "npu_name"),
    [
        ("torch.cuda.synchronize", "torch.npu.synchronize"),
        ("torch.cuda.CUDAGraph", "torch.npu.NPUGraph"),
        ("torch.cuda.amp.GradScaler", "torch.npu.amp.GradScaler"),
        ("torch.cuda.nvtx.range_push", "torch.npu.mstx.range_push"),
        ("torch.cuda.OutOfMemoryError", "torch.OutOfMemoryError"),
        ("torch.Tensor.cuda", "torch.Tensor.npu"),
    ],
)
def test_a_cuda_name_leads_to_its_counterpart(tables: SupportTables, name: str, npu_name: str) -> None:
    support = tables.api(name)
    assert (support.supported, support.npu_name) == (True, npu_name)


@pytest.mark.parametrize("name", ["torch.cuda.cudart", "torch.cuda.nccl.version", "torch.cuda.get_arch_list"])
def test_a_cuda_name_without_a_counterpart_is_unsupported(tables: SupportTables, name: str) -> None:
    assert tables.api(name).supported is False


def test_a_submodule_is_there_but_not_each_of_its_names(tables: SupportTables) -> None:
    support = tables.api("torch.cuda.nvtx.range")
    assert (support.status, support.note) == ("unsupported", "torch.npu.mstx has no range")


def test_names_of_torch_npu_are_checked(tables: SupportTables) -> None:
    assert tables.api("torch.npu.mem_get_info").status == "native"
    assert tables.api("torch_npu.npu_fusion_attention").status == "native"
    assert tables.api("torch.npu.no_such_name").status == "unsupported"


def test_an_api_that_no_table_names_is_unverified_and_not_refused(tables: SupportTables) -> None:
    support = tables.api("torch.nn.Dropout1d")
    assert (support.status, support.supported) == ("unverified", None)


def test_a_ticked_api_whose_operator_has_no_kernel_falls_back(tables: SupportTables) -> None:
    support = tables.api("torch.nn.HuberLoss")
    assert (support.status, support.certain) == ("fallback", False)
    assert "aten::huber_loss" in support.note


def test_a_crossed_api_whose_operators_have_kernels_is_uncertain(tables: SupportTables) -> None:
    support = tables.api("torch.nn.MaxPool1d")
    assert (support.status, support.certain) == ("unsupported", False)


def test_a_crossed_api_without_other_evidence_is_certain(tables: SupportTables) -> None:
    support = tables.api("torch.nn.DataParallel")
    assert (support.status, support.certain) == ("unsupported", True)


def test_an_unlisted_function_follows_its_operators(tables: SupportTables) -> None:
    assert tables.api("torch.linalg.inv").status == "fallback"
    assert tables.api("torch.Tensor.masked_fill_").status == "native"


def test_the_column_of_the_soc_decides() -> None:
    answers = [SupportTables.load(soc).api("torch.default_generator") for soc in ("Ascend910_9391", "Ascend950")]
    assert [(answer.status, answer.source.rpartition(" ")[2]) for answer in answers] == [
        ("native", "A3"),
        ("unsupported", "950"),
    ]


def test_a_chip_without_a_column_is_answered_by_operators_or_else_as_likely() -> None:
    tables = SupportTables.load("Ascend910A")
    by_operator, by_column = tables.api("torch.add"), tables.api("torch.nn.Module")
    assert (by_operator.status, by_operator.certain) == ("native", True)
    assert (by_column.status, by_column.certain) == ("native", False)


def test_dtype_limits_are_read_in_pytorchs_spelling(tables: SupportTables) -> None:
    support = tables.api("torch.equal")
    assert support.has_limits
    assert support.excludes("complex128") is True
    assert support.excludes("float64") is False
    assert support.excludes("float16") is False


def test_an_api_without_limits_excludes_nothing_and_says_so(tables: SupportTables) -> None:
    assert tables.api("torch.no_grad").excludes("float64") is None
