"""`torch_npu.utils`, `torch_npu.jit`, `torch_npu.testing`."""

# ruff: noqa: PT009 (the methods of the test case are what is tested)

from __future__ import annotations

import os
import time
import unittest
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from jumar.device import DevicePlan, activate, emulate

activate(DevicePlan(real="never"))


@pytest.fixture(autouse=True)
def exact() -> Any:
    with emulate(numerics="exact", unsupported="fallback"):
        torch.manual_seed(0)
        yield


def test_operations_are_counted_while_the_counter_runs() -> None:
    from torch_npu.utils import FlopsCounter

    counter, a, b = FlopsCounter(), torch.ones(4, 8, device="npu"), torch.ones(8, 2, device="npu")
    counter.start()
    _ = a @ b + 1
    counter.pause()
    _ = a @ b
    counter.resume()
    assert counter.get_flops() == [2 * 4 * 8 * 2, 2 * 2 * 4 * 8 * 2]
    counter.stop()
    _ = a @ b
    assert counter.get_flops() == [0, 0]


def test_the_operations_of_a_layer_and_its_backward_are_counted() -> None:
    from torch_npu.utils import FlopsCounter

    layer, x = nn.Conv2d(3, 4, 3, bias=False).npu(), torch.ones(1, 3, 8, 8, device="npu", requires_grad=True)
    with FlopsCounter() as counter:
        layer(x).sum().backward()
        forward = 2 * 6 * 6 * 4 * 3 * 3 * 3
        assert counter.get_flops() == [3 * forward, 3 * forward]


def test_combined_tensors_share_one_memory() -> None:
    from torch_npu.utils import get_part_combined_tensor, is_combined_tensor_valid, npu_combine_tensors

    tensors = [torch.randn(2, 3, device="npu"), nn.Parameter(torch.randn(4, device="npu"))]
    before = [tensor.detach().clone() for tensor in tensors]
    combined = npu_combine_tensors(tensors)
    assert combined.shape == (10,)
    assert is_combined_tensor_valid(combined, tensors)
    assert all(torch.equal(tensor, value) for tensor, value in zip(tensors, before, strict=True))
    get_part_combined_tensor(combined, 6, 4).zero_()
    assert tensors[1].tolist() == [0, 0, 0, 0]
    assert torch.equal(tensors[0], before[0])
    with pytest.raises(RuntimeError, match="index"):
        get_part_combined_tensor(combined, 6, 5)
    assert not is_combined_tensor_valid(combined, [torch.ones(2, device="npu")])


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ([torch.ones(2)], "must be on NPU, got cpu"),
        ([torch.ones(2, device="npu"), torch.ones(2, device="npu").half()], "same dtype"),
        ([torch.ones(2, 3, device="npu").t()], "contiguous"),
        ([torch.ones(2, device="npu"), None], "`None`"),
    ],
)
def test_tensors_that_cannot_be_combined_are_refused(tensors: list[Any], message: str) -> None:
    from torch_npu.utils import npu_combine_tensors

    with pytest.raises(RuntimeError, match=message):
        npu_combine_tensors(tensors)


def test_there_may_be_nothing_to_combine() -> None:
    from torch_npu.utils import get_part_combined_tensor, is_combined_tensor_valid, npu_combine_tensors

    assert npu_combine_tensors([]) is None
    assert npu_combine_tensors([torch.empty(0, device="npu")]) is None
    assert get_part_combined_tensor(None, 0, 1) is None
    assert (is_combined_tensor_valid(None, []), is_combined_tensor_valid(None, [torch.ones(1)])) == (True, False)


@pytest.mark.parametrize("core_range", [[3], [2, 1], [[0]], [[0, -1]], ["a", "b"]])
def test_a_core_range_that_is_none_is_refused(core_range: Any) -> None:
    from torch_npu.utils import set_thread_affinity

    with pytest.raises(ValueError, match="Invalid core range"):
        set_thread_affinity(core_range)


def test_a_thread_is_bound_to_the_cores_that_are_here() -> None:
    from torch_npu.utils import reset_thread_affinity, set_thread_affinity

    before = os.sched_getaffinity(0)
    try:
        first = min(before)
        set_thread_affinity([[first, first], [10_000, 10_001]])
        assert os.sched_getaffinity(0) == {first}
        reset_thread_affinity()
        assert os.sched_getaffinity(0) == before
        set_thread_affinity([10_000, 10_001])
        assert os.sched_getaffinity(0) == before
    finally:
        os.sched_setaffinity(0, before)


def test_a_product_is_held_against_the_checksum_of_its_factors() -> None:
    import torch_npu

    a, b = torch.randn(8, 16, device="npu"), torch.randn(16, 4, device="npu")
    c = a @ b
    assert not torch_npu.matmul_checksum(a, b, c)
    c[3, 2] += 50
    assert torch_npu.matmul_checksum(a, b, c)
    with pytest.raises(TypeError):
        torch_npu.matmul_checksum(a, b, c.cpu())


def test_the_report_on_the_environment_names_versions_and_cann(monkeypatch: Any, tmp_path: Path) -> None:
    from torch_npu.utils import collect_env

    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "ascend_runtime_install.info").write_text("package=runtime\nversion=8.0.RC3\n")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    assert collect_env.get_cann_version() == "8.0.RC3"
    monkeypatch.delenv("ASCEND_HOME_PATH")
    assert collect_env.get_cann_version() == "not known"
    facts = dict.fromkeys(collect_env.SystemEnv._fields, "x") | {"is_debug_build": False, "gcc_version": None}
    text = collect_env.pretty_str(collect_env.SystemEnv(**facts))
    assert "Is debug build: No" in text
    assert "GCC version: Could not collect" in text
    with pytest.raises(RuntimeError, match="does not exist"):
        collect_env.check_directory_path_readable(str(tmp_path / "gone"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:`torch.jit.script`:FutureWarning")
def test_a_scripted_gelu_becomes_the_vendors() -> None:
    import torch_npu

    x = torch.randn(2, 4, device="npu")
    gelu = torch.jit.script(nn.GELU())
    torch_npu.jit.fusion_pass.fast_gelu.fast_gelu_pass(gelu)
    assert "npu::fast_gelu" in str(gelu.graph)
    assert torch.equal(gelu(x), torch.ops.npu.fast_gelu(x))


def test_synchronised_batch_norm_is_pytorchs_function() -> None:
    from torch.nn.modules._functions import SyncBatchNorm as Plain
    from torch_npu.utils.syncbatchnorm import SyncBatchNorm

    assert issubclass(SyncBatchNorm, Plain)


class TestTheTestCase:
    """`torch_npu.testing.testcase.TestCase`."""

    @pytest.fixture
    def case(self) -> Any:
        from torch_npu.testing.testcase import TestCase

        return TestCase()

    @pytest.mark.parametrize(
        ("x", "y"),
        [
            (torch.ones(3), torch.ones(3) + 5e-5),
            (torch.ones(3).half(), torch.ones(3).half() + 9e-4),
            (torch.ones(3).bfloat16(), torch.ones(3).bfloat16()),
            (1.0, 1.00005),
            ([torch.ones(2), 2.0], [torch.ones(2), 2.0]),
            (np.array([np.nan, 1.0]), np.array([np.nan, 1.0])),
            (torch.tensor([True]), torch.tensor([True])),
            (torch.tensor([1.0, 2.0]), [1.0, 2.0]),
        ],
    )
    def test_results_within_the_tolerance_agree(self, case: Any, x: Any, y: Any) -> None:
        case.assertRtolEqual(x, y)

    @pytest.mark.parametrize(
        ("x", "y", "why"),
        [
            (torch.ones(3), torch.ones(3) * 1.01, r"result error: 3 of 3 .*difference is 0\.00999.* at \(0,\)"),
            (torch.ones(3), torch.ones(4), "shape error"),
            (torch.ones(3), torch.ones(3).double(), "dtype error"),
            (torch.tensor([1.0]), torch.tensor([float("nan")]), "NaN"),
            (torch.tensor([True]), torch.tensor([False]), "result error"),
        ],
    )
    def test_results_beyond_it_do_not_and_the_message_says_where(self, case: Any, x: Any, y: Any, why: str) -> None:
        with pytest.raises(AssertionError, match=why):
            case.assertRtolEqual(x, y)

    def test_a_part_of_the_elements_may_be_beyond_it(self, case: Any) -> None:
        x, y = torch.ones(20_000), torch.ones(20_000)
        y[0] = 2
        case.assertRtolEqual(x, y)

    def test_equality_is_within_the_precision(self, case: Any) -> None:
        x = torch.tensor([1.0, float("inf")], device="npu")
        case.assertEqual(x, x.cpu() + 1e-6, allow_inf=True)
        case.assertEqual({"a": [1, torch.ones(2)]}, {"a": [1, torch.ones(2)]})
        case.assertEqual(1.0, 1.05, 0.1)
        case.assertAlmostEqual(1.0, 1.0004, places=3)
        for one, other in ((1.0, 1.1), ("a", "b"), (x, x), (torch.ones(2), torch.ones(3)), ([1], [1, 2])):
            with pytest.raises(AssertionError):
                case.assertEqual(one, other)
        case.assertNotEqual(torch.ones(2), torch.zeros(2))
        with pytest.raises(AssertionError):
            case.assertNotEqual(torch.ones(2), torch.ones(2))
        case.assertTensorsSlowEqual(torch.ones(2, 2), torch.ones(2, 2), 1e-6)

    def test_sparse_tensors_are_compared_by_their_sums(self, case: Any) -> None:
        twice, indices, values = case.genSparseTensor([4, 5], 2, 3, is_uncoalesced=True)
        assert (indices.shape, values.shape, twice.is_coalesced()) == ((2, 6), (6,), False)
        case.assertEqual(twice, twice.coalesce())
        case.assertEqual(case.safeToDense(twice), twice.to_dense())

    def test_warnings_are_asked_for(self, case: Any) -> None:
        case.assertWarns(lambda: warnings.warn("here", stacklevel=1))
        case.assertNotWarn(lambda: None)
        with pytest.raises(AssertionError):
            case.assertWarns(lambda: None)
        with case.assertWarns(UserWarning):
            warnings.warn("here", stacklevel=1)
        with case.maybeWarnsRegex(UserWarning, "known"):
            warnings.warn("known", stacklevel=1)
        with pytest.raises(AssertionError, match="unexpected"), case.maybeWarnsRegex(UserWarning, "known"):
            warnings.warn("other", stacklevel=1)

    def test_one_object_is_looked_for(self, case: Any) -> None:
        thing: list[Any] = []
        case.assertObjectIn(thing, [[], thing])
        with pytest.raises(AssertionError):
            case.assertObjectIn(thing, [[]])

    def test_it_runs_with_its_decorators(self) -> None:
        from torch_npu.testing.common_utils import SkipIfNotGteCANNVersion, SupportedDevices, create_common_tensor
        from torch_npu.testing.decorator import Dtypes, Formats, instantiate_tests
        from torch_npu.testing.testcase import TestCase

        seen = []

        @instantiate_tests
        class Case(TestCase):
            @Dtypes(torch.float16, torch.float32)
            @Formats(2, 0)
            def test_add(self, device: str, dtype: torch.dtype, npu_format: int) -> None:
                seen.append((device, dtype, npu_format))
                cpu, npu = create_common_tensor([np.float32, npu_format, (2, 3)], 0, 1, device)
                self.assertRtolEqual((cpu + 1).to(dtype), (npu + 1).to(dtype))

            @SupportedDevices(["Ascend910A"])
            def test_other_chip(self) -> None:
                seen.append("other chip")

            @SkipIfNotGteCANNVersion("99.0")
            def test_other_cann(self) -> None:
                seen.append("other cann")

        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
        assert (result.errors, result.failures, len(result.skipped)) == ([], [], 2)
        formats_and_types = [(dtype, kind) for dtype in (torch.float16, torch.float32) for kind in (2, 0)]
        assert sorted(seen, key=str) == sorted((("npu", dtype, kind) for dtype, kind in formats_and_types), key=str)
        names = [name for name in dir(Case) if name.startswith("test_add")]
        assert names == ["test_add_float16_0", "test_add_float16_2", "test_add_float32_0", "test_add_float32_2"]


def test_helpers_of_tests(tmp_path: Path) -> None:
    from torch_npu.testing import common_utils

    with common_utils.freeze_rng_state():
        first = torch.rand(2)
    assert torch.equal(torch.rand(2), first)
    assert list(common_utils.iter_indices(torch.ones(2, 2))) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert (common_utils.is_iterable([]), common_utils.is_iterable(1)) == (True, False)
    for dtype in (torch.float16, torch.float32, torch.int32, torch.bool):
        cpu, npu = common_utils.create_dtype_tensor((3, 4), dtype, no_zero=dtype != torch.bool)
        assert (npu.device.type, cpu.dtype) == ("npu", dtype)
        assert torch.equal(npu.cpu(), cpu)
    for cpu, npu in common_utils.test_2args_broadcast(torch.add):
        assert np.array_equal(cpu, npu)
    baseline = common_utils.Baseline(str(tmp_path / "times.json"))
    baseline.set_baseline("test", 0.5)
    baseline.save_baseline()
    assert common_utils.Baseline(str(tmp_path / "times.json")).get_baseline("test") == 0.5


def test_the_cycles_of_a_millisecond_are_measured() -> None:
    from torch_npu.testing.common_utils import get_cycles_per_ms

    start = time.perf_counter()
    torch.npu._sleep(int(5 * get_cycles_per_ms()))
    assert time.perf_counter() - start > 0.002


def test_samples_of_operators_are_pytorchs_and_more() -> None:
    pytest.importorskip("expecttest")
    from torch.testing._internal.common_methods_invocations import op_db
    from torch_npu.testing.common_methods_invocations import sample_inputs_median_custom

    median = next(op for op in op_db if op.name == "median")
    shapes = [tuple(sample.input.shape) for sample in sample_inputs_median_custom(median, "npu", torch.float32, False)]
    assert shapes[:2] == [(2, 0), (0, 2)]
    assert len(shapes) > 2


@pytest.mark.filterwarnings("ignore:.*Profiler clears events at the end of each cycle")  # PyTorch 2.10 and 2.11
@pytest.mark.parametrize("kind", ["TORCH", "ASCEND_PROFILER"])
def test_one_step_is_profiled_and_ends_the_program(kind: str, tmp_path: Path) -> None:
    from jumar.npu.api.utils.profiler import _Profile

    profile = _Profile(start_step=2, save_path=str(tmp_path / "profile"), profile_type=kind)
    x = torch.ones(4, 4, device="npu")
    profile.start()
    _ = x @ x
    profile.end()
    profile.start()
    _ = x @ x
    with pytest.raises(SystemExit):
        profile.end()
    assert any((tmp_path / "profile").iterdir())
    with pytest.raises(RuntimeError, match="before end"):
        profile.end()


def test_a_profile_that_nobody_asked_for_does_nothing() -> None:
    from torch_npu.utils.profiler import Profile, Singleton

    from jumar.npu.api.utils.profiler import _Profile

    first = Profile()
    assert Profile(start_step=3) is first
    first.start()
    with pytest.raises(RuntimeError, match="only be called once"):
        first.start()
    first.end()
    assert Singleton(list)("ab") == ["a", "b"]
    with pytest.raises(ValueError, match="invalid"):
        _Profile(profile_type="TORCH", schedule=None)
