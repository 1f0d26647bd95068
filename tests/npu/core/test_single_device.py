"""The first releases' rule of one device a thread, which the migration guide's list of failures describes."""

from __future__ import annotations

import threading

import pytest
import torch

from jumar.device import DevicePlan, activate, emulate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))


def backward_on_the_cpu():
    torch.randn(20, 10, requires_grad=True).sum().backward()


def backward_on_the_npu():
    torch.randn(20, 10, requires_grad=True).npu().sum().backward()


@pytest.fixture(autouse=True)
def _current_device():
    yield
    torch.npu.set_device(0)


def in_thread(function):
    """Run in a thread of its own, which has used no device, and return its error."""
    errors: list[BaseException] = []

    def run():
        try:
            function()
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return str(errors[0]).partition(":")[0] if errors else ""


def set_device_after_a_backward_pass():
    backward_on_the_cpu()
    torch.npu.set_device("npu:1")
    backward_on_the_npu()


def set_device_first():
    torch.npu.set_device("npu:1")
    backward_on_the_cpu()
    backward_on_the_npu()


def two_devices():
    torch.npu.set_device(0)
    torch.npu.set_device(1)


def a_tensor_elsewhere():
    torch.ones(2, device="npu:0").add_(1)
    torch.ones(2, device="npu:1").add_(1)


@pytest.mark.parametrize("snippet", [set_device_after_a_backward_pass, two_devices, a_tensor_elsewhere])
def test_a_thread_that_turns_to_another_device_fails(snippet):
    with emulate(single_device=True, numerics="exact"):
        assert in_thread(snippet) == "ExchangeDevice"
    assert in_thread(snippet) == ""


def test_setting_the_device_before_everything_else_is_the_guides_way_out():
    with emulate(single_device=True, numerics="exact"):
        assert in_thread(set_device_first) == ""


def test_every_thread_may_have_a_device_of_its_own():
    with emulate(single_device=True, numerics="exact"):
        assert [in_thread(lambda index=index: torch.ones(2, device=f"npu:{index}") + 1) for index in (0, 1)] == ["", ""]
