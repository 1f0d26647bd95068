"""Options of the runtime, limits of devices and streams, properties, marks, determinism."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from jumar.device import DevicePlan, activate, emulate
from jumar.npu.core.state import STATE
from jumar.npu.runtime.mstx import clear_records, records, subscribe

activate(DevicePlan(real="never"))


@pytest.fixture(autouse=True)
def block() -> Any:
    with emulate():
        yield


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ACL_PRECISION_MODE", "must_keep_origin_dtype"),
        ("ACL_OP_DEBUG_LEVEL", 3),
        ("ACL_DEBUG_DIR", "anywhere"),
        ("ACL_OP_COMPILER_CACHE_MODE", "force"),
        ("ACL_OP_COMPILER_CACHE_DIR", "anywhere"),
        ("ACL_AICORE_NUM", 32),
        ("ALLOW_MATMUL_HF32", "enable"),
    ],
)
def test_an_option_is_kept_as_text(name: str, value: Any) -> None:
    option = {name: value}
    torch.npu.set_option(option)
    assert option == {name: str(value)}
    assert STATE.options[name] == str(value)


@pytest.mark.parametrize("name", ["ACL_OP_SELECT_IMPL_MODE", "ACL_OPTYPELIST_FOR_IMPLMODE"])
def test_the_options_of_implementations_are_kept_with_a_warning(name: str) -> None:
    with pytest.warns(UserWarning, match=f"{name} will be deprecated"):
        torch.npu.set_option({name: "high_precision"})
    assert STATE.options[name] == "high_precision"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ACL_PRECISION_MODE", "fp16"),
        ("ACL_OP_SELECT_IMPL_MODE", "fast"),
        ("ACL_OP_DEBUG_LEVEL", "5"),
        ("ACL_OP_COMPILER_CACHE_MODE", "on"),
        ("ACL_AICORE_NUM", "0"),
        ("ACL_AICORE_NUM", "33"),
    ],
)
def test_a_value_an_option_does_not_take_is_refused_and_nothing_is_set(name: str, value: str) -> None:
    before = dict(STATE.options)
    with pytest.raises(ValueError, match=f"value of {name} should be .*but got {value}"):
        torch.npu.set_option({"ACL_DEBUG_DIR": "anywhere", name: value})
    assert STATE.options == before


def test_an_option_the_runtime_does_not_have_is_refused() -> None:
    with pytest.raises(RuntimeError, match="invalid npu option name:ACL_NO_SUCH"):
        torch.npu.set_option({"ACL_NO_SUCH": "1"})
    with pytest.raises(TypeError, match="must be a dict"):
        torch.npu.set_option([("ACL_OP_DEBUG_LEVEL", "1")])


def test_options_end_with_the_block_they_are_set_in() -> None:
    with emulate():
        torch.npu.set_option({"ACL_AICORE_NUM": 8})
    assert "ACL_AICORE_NUM" not in STATE.options


@pytest.mark.parametrize(("soc", "is_off"), [("Ascend910A", False), ("Ascend910B1", True)])
def test_online_compilation_is_the_socs_until_it_is_chosen(soc: str, is_off: bool) -> None:
    with emulate(soc):
        assert torch.npu.is_jit_compile_false() is is_off
        torch.npu.set_compile_mode(jit_compile=is_off)
        assert torch.npu.is_jit_compile_false() is not is_off


def test_the_switches_that_are_attributes_set_options() -> None:
    torch.npu.config.allow_internal_format = True
    assert (STATE.options["ALLOW_INTERNAL_FORMAT"], torch.npu.config.allow_internal_format) == ("enable", True)
    torch.npu.set_mm_bmm_format_nd(False)
    assert torch.npu.get_mm_bmm_format_nd() is False
    torch.npu.set_option({"MM_BMM_ND_ENABLE": "enable"})
    assert torch.npu.get_mm_bmm_format_nd() is True
    torch.npu.aclnn.allow_hf32 = False
    assert (torch.npu.conv.allow_hf32, STATE.options["ALLOW_CONV_HF32"]) == (False, "disable")


def test_the_level_of_the_task_queue_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TASK_QUEUE_ENABLE", raising=False)
    assert torch.npu.get_task_queue_enable() == 1
    monkeypatch.setenv("TASK_QUEUE_ENABLE", "0")
    assert torch.npu.get_task_queue_enable() == 0
    torch.npu.set_task_queue_enable(2)
    assert torch.npu.get_task_queue_enable() == 2
    with pytest.raises(ValueError, match="0, 1 or 2"):
        torch.npu.set_task_queue_enable(3)


def test_the_cores_of_a_device_can_be_limited_once() -> None:
    assert torch.npu.get_device_limit(0) == {"cube_core_num": 24, "vector_core_num": 48}
    torch.npu.set_device_limit(0, cube_num=12)
    assert torch.npu.get_device_limit(0) == {"cube_core_num": 12, "vector_core_num": 48}
    with pytest.raises(RuntimeError, match="already been called"):
        torch.npu.set_device_limit(0, cube_num=6)


@pytest.mark.parametrize(("device", "error"), [("npu:0", TypeError), (True, TypeError), (8, AssertionError)])
def test_limits_take_the_number_of_a_device(device: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        torch.npu.get_device_limit(device)


def test_a_limit_is_at_most_what_the_soc_has() -> None:
    with pytest.raises(RuntimeError, match="from 1 to 24, the cores of Ascend910B1"):
        torch.npu.set_device_limit(0, cube_num=25)


def test_the_cores_of_a_stream_can_be_limited_and_freed() -> None:
    stream = torch.npu.Stream()
    torch.npu.set_stream_limit(stream, vector_num=8)
    assert torch.npu.get_stream_limit(stream) == {"cube_core_num": 24, "vector_core_num": 8}
    torch.npu.reset_stream_limit(stream)
    assert torch.npu.get_stream_limit(stream) == torch.npu.get_device_limit(0)
    with pytest.raises(AssertionError, match="stream cannot be None"):
        torch.npu.get_stream_limit(None)


@pytest.mark.parametrize(("soc", "has"), [("Ascend910A", False), ("Ascend910B1", True), ("Ascend310P3", False)])
def test_bfloat16_is_the_socs(soc: str, has: bool) -> None:
    with emulate(soc):
        assert torch.npu.is_bf16_supported() is has
        assert (torch.bfloat16 in torch.npu.get_amp_supported_dtype()) is has


def test_the_capability_is_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert torch.npu.get_device_capability() is None
    monkeypatch.setenv("TORCH_NPU_DEVICE_CAPABILITY", "9.0")
    assert torch.npu.get_device_capability(0) == (9, 0)
    assert torch.npu.get_device_capability(torch.npu.get_device_name()) == (9, 0)  # any argument, and no use of it
    monkeypatch.setenv("TORCH_NPU_DEVICE_CAPABILITY", "nine")
    assert torch.npu.get_device_capability() is None


def test_figures_of_other_devices_are_there_and_none() -> None:
    first, second = (torch.npu.get_device_properties(index) for index in range(2))
    assert (first.major, first.minor, first.warp_size, first.gcnArchName) == (None,) * 4
    assert first.uuid == torch.npu.get_device_properties("npu:0").uuid != second.uuid


def test_kernels_of_attention_are_chosen_under_the_devices_name_too() -> None:
    torch.npu.enable_math_sdp(False)
    try:
        assert (torch.npu.math_sdp_enabled(), torch.npu.flash_sdp_enabled()) == (False, True)
        with torch.npu.sdp_kernel(enable_flash=False):
            assert (torch.npu.math_sdp_enabled(), torch.npu.flash_sdp_enabled()) == (True, False)
    finally:
        torch.npu.enable_math_sdp(True)
    with pytest.warns(UserWarning, match="isn't implemented"):
        assert torch.npu.preferred_linalg_library("magma") == torch._C._LinalgBackend.Default


def test_the_switch_of_convolutions_is_set_for_a_block() -> None:
    before = torch.npu.conv.allow_hf32
    with torch.npu.aclnn.flags(allow_hf32=not before):
        assert torch.npu.aclnn.allow_hf32 == torch.npu.conv.allow_hf32 == (not before)
    assert torch.npu.aclnn.allow_hf32 == before


@pytest.mark.parametrize(
    "query",
    [
        torch.npu.get_device_name,
        torch.npu.get_device_properties,
        torch.npu.utilization,
        lambda device: torch.npu.can_device_access_peer(0, device),
    ],
)
def test_queries_of_a_device_that_there_is_not_fail_as_the_vendors(query: Any) -> None:
    with pytest.raises(AssertionError, match="Invalid"):
        query(99)


def test_checks_of_the_hardware_find_it_well() -> None:
    assert (torch.npu.utilization(), torch.npu.check_uce_in_memory(0), torch.npu.stress_detect()) == (0, 0, 0)
    with pytest.warns(UserWarning, match="Detect_type"):
        assert torch.npu.stress_detect("all") == 1
    with pytest.warns(UserWarning, match="should be initialized"):
        assert torch.npu.stress_detect("hccs") == 1
    with pytest.warns(UserWarning, match="blas"):
        assert torch.npu.current_blas_handle() is None


def test_private_calls_that_scripts_use() -> None:
    import torch_npu

    called = []
    torch.npu._lazy_init()
    torch.npu._lazy_call(lambda: called.append(1))
    assert called == [1]
    assert torch_npu._C._npu_get_soc_version() == 220
    torch.npu.set_option({"ALLOW_MATMUL_HF32": "enable"})
    assert torch_npu._C._npu_getOption("ALLOW_MATMUL_HF32") == b"enable"
    assert torch_npu.npu.utils.get_cann_version() >= "8.0"
    assert torch_npu.npu.utils._is_gte_cann_version("8.0.RC1")
    assert not torch_npu.npu.utils._is_gte_cann_version("99")


def test_determinism_is_switched_on_for_a_part_and_its_backward() -> None:
    import torch_npu

    seen = []

    class Look(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            seen.append(torch.are_deterministic_algorithms_enabled())
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            seen.append(torch.are_deterministic_algorithms_enabled())
            return gradient

    x = torch.ones(2, device="npu", requires_grad=True)
    y = torch_npu.npu.enable_deterministic_with_backward(x)
    y = torch_npu.npu.disable_deterministic_with_backward(Look.apply(y))
    Look.apply(y).sum().backward()
    assert seen == [True, False, False, True]
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_level_of_determinism_switches_pytorch_with_a_warning() -> None:
    try:
        with pytest.warns(UserWarning, match="configured to 'True'"):
            torch.npu.set_deterministic_level(1)
        assert torch.are_deterministic_algorithms_enabled()
    finally:
        torch.use_deterministic_algorithms(False)
    with pytest.raises(RuntimeError, match="whole number"):
        torch.npu.set_deterministic_level("high")


def test_implementations_like_pytorchs_are_remembered() -> None:
    assert torch.npu.are_compatible_impl_enabled() is False
    torch.npu.use_compatible_impl(True)
    assert torch.npu.are_compatible_impl_enabled() is True
    torch.npu.set_op_timeout_ms(1000)
    with pytest.raises(RuntimeError, match="timeout"):
        torch.npu.set_op_timeout_ms(-1)


def test_marks_and_ranges_are_kept_and_told() -> None:
    clear_records()
    told: list[Any] = []
    mstx, stream = torch.npu.mstx, torch.npu.Stream()
    with subscribe(told.append):
        mstx.mark("start", domain="data")
        assert (mstx.range_push("outer"), mstx.range_push("inner", stream)) == (0, 1)
        assert (mstx.range_pop(), mstx.range_pop(), mstx.range_pop()) == (1, 0, -1)
        number = mstx.range_start("elsewhere")
        ending = threading.Thread(target=mstx.range_end, args=(number,))
        ending.start()
        ending.join()
        with mstx.annotate("block"):
            pass

        @mstx.annotate()
        def work() -> int:
            return 3

        assert work() == 3
        assert mstx.mstx_range("named")(work)() == 3
    mstx.mark("nobody listens")
    names = ["start", "inner", "outer", "elsewhere", "block", "work", "work", "named"]
    assert [record.message for record in told] == names
    assert [record.message for record in records()] == [*names, "nobody listens"]
    assert (told[0].domain, told[0].start_ns, told[1].stream_id) == ("data", told[0].end_ns, stream.stream_id)
    assert all(record.start_ns <= record.end_ns for record in told)


@pytest.mark.parametrize(
    ("call", "result"),
    [
        (lambda mstx: mstx.mark(""), None),
        (lambda mstx: mstx.range_start("a", stream="s"), 0),
        (lambda mstx: mstx.range_push("a", domain=""), -1),
        (lambda mstx: mstx.range_end("a"), None),
    ],
)
def test_a_wrong_mark_is_a_warning(call: Any, result: Any) -> None:
    with pytest.warns(UserWarning, match=r"Invalid .* mstx"):
        assert call(torch.npu.mstx) == result
