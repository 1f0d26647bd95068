"""The pytest plugin, in test suites of its own."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

DEVICE_TEST = """
def test_where(device):
    import torch
    x = torch.ones(3, device=device, requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad.device.type == "{expected}"
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.delenv("JUMAR_DEVICE_PLAN", raising=False)
    return pytester


def run(suite: pytest.Pytester, *arguments: str, **outcomes: int) -> pytest.RunResult:
    result = suite.runpytest_subprocess("-p", "no:cacheprovider", *arguments)
    result.assert_outcomes(**outcomes)
    return result


@pytest.mark.parametrize(
    ("arguments", "expected"), [((), "cpu"), (("--device", "npu"), "npu"), (("--jumar-device=npu",), "npu")]
)
def test_the_fixture_device_is_what_the_option_says(suite, arguments, expected):
    suite.makepyfile(DEVICE_TEST.format(expected=expected))
    run(suite, *arguments, passed=1)


def test_the_option_may_stand_before_a_path_and_the_header_names_the_device(suite):
    suite.makepyfile(test_a=DEVICE_TEST.format(expected="npu"))
    result = run(suite, "--device", "npu", "--soc", "Ascend910B3", "test_a.py", passed=1)
    result.stdout.fnmatch_lines(["jumar: npu (emulated), Ascend910B3"])


def test_a_suite_with_an_option_of_that_name_keeps_it(suite):
    suite.makeconftest("""
        import pytest
        def pytest_addoption(parser):
            parser.addoption("--device", default="mine")
        @pytest.fixture
        def device(request):
            return request.config.getoption("--device")
    """)
    suite.makepyfile("def test_own(device, npu): assert device == 'theirs' and npu.type == 'npu'")
    run(suite, "--device", "theirs", passed=1)


def test_the_mark_gives_a_test_its_chip_and_ends_with_it(suite):
    suite.makepyfile("""
        import pytest

        @pytest.mark.npu(soc="Ascend910A", num_devices=2)
        def test_marked(device):
            import torch
            assert device.type == "npu" and torch.npu.get_device_name() == "Ascend910A"
            assert torch.npu.device_count() == 2

        @pytest.mark.npu
        def test_plain_mark(npu):
            import torch
            assert torch.npu.get_device_name() == "Ascend910B1"
            assert torch.ones(2, device=npu).sum().item() == 2

        class TestOfAClass:
            pytestmark = pytest.mark.npu("Ascend310P3")

            def test_in_a_class(self):
                import torch
                assert torch.npu.get_device_name() == "Ascend310P3"

        def test_no_mark(device):
            assert device.type == "cpu"
    """)
    run(suite, passed=4)


def test_a_process_that_a_marked_test_starts_has_its_npu(suite):
    suite.makepyfile("""
        import os, subprocess, sys
        import pytest

        @pytest.mark.npu(soc="Ascend910A")
        def test_child():
            code = "import torch; print(torch.npu.get_device_name())"
            assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "Ascend910A"

        def test_no_mark():
            assert "JUMAR_DEVICE_PLAN" not in os.environ
    """)
    run(suite, passed=2)


def test_a_wrong_mark_or_chip_is_said_in_one_sentence(suite):
    suite.makepyfile("""
        import pytest

        @pytest.mark.npu(chip="Ascend910A")
        def test_wrong_argument(): pass

        @pytest.mark.npu(soc="Ascend911")
        def test_wrong_chip(): pass
    """)
    result = run(suite, errors=2)
    result.stdout.fnmatch_lines(
        ["*@pytest.mark.npu takes soc, num_devices, *; got chip.", '*"Ascend911" must be an Ascend SoC that*']
    )
    result = suite.runpytest_subprocess("--device", "npu", "--soc", "Ascend911")
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_workers_of_xdist_and_child_processes_have_the_device(suite):
    suite.makepyfile("""
        import subprocess, sys
        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test_worker(device, number):
            assert device.type == "npu"

        def test_child():
            code = "import torch; print(torch.ones(1, device='npu').device)"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            assert done.stdout.strip() == "npu:0"
    """)
    run(suite, "-n", "2", "--device", "npu", passed=5)


def test_a_marked_test_may_come_after_a_backward_pass_on_the_cpu(suite):
    suite.makepyfile("""
        import pytest, torch

        def step(device):
            x = torch.ones(3, device=device, requires_grad=True)
            (x * 2).sum().backward()
            return x.grad.tolist()

        def test_cpu(): assert step("cpu") == [2, 2, 2]

        @pytest.mark.npu
        def test_npu(): assert step("npu") == [2, 2, 2]
    """)
    run(suite, passed=2)


def test_emulate_decorates_a_test(suite):
    suite.makepyfile("""
        import jumar

        @jumar.emulate("Ascend910B4", memory_bytes=2**30)
        def test_decorated():
            import torch
            assert torch.npu.get_device_name() == "Ascend910B4"
            assert torch.npu.mem_get_info()[1] == 2**30
    """)
    run(suite, passed=1)


def test_a_suite_that_asks_for_nothing_pays_no_import_of_torch(suite):
    suite.makepyfile("def test_nothing(): import sys; assert 'torch' not in sys.modules")
    run(suite, passed=1)
