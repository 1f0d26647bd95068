"""Streams, events, the sync debug mode, and PyTorch's neutral objects on the npu."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest
import torch

from jumar.device import DevicePlan, activate, emulate

activate(DevicePlan(real="never"))


def test_kinds_of_streams_are_told_apart() -> None:
    plain, launch = torch.npu.Stream(), torch.npu.SyncLaunchStream()
    assert plain != launch
    assert isinstance(plain, torch.npu.Stream)
    assert not isinstance(launch, torch.npu.Stream)
    same = torch.npu.Stream(stream_id=plain.stream_id, device_index=plain.device_index)
    assert (same, hash(same)) == (plain, hash(plain))


@pytest.mark.parametrize("kind", [torch.npu.Stream, torch.npu.SyncLaunchStream])
def test_a_stream_does_what_is_asked_of_it(kind: Any) -> None:
    stream = kind(priority=-1)
    with torch.npu.stream(stream):
        assert torch.npu.current_stream() == stream
        event = stream.record_event()
    stream.wait_event(event)
    stream.wait_stream(torch.npu.current_stream())
    stream.set_data_preprocess_stream(True)
    stream.synchronize()
    assert (stream.query(), event.query()) == (True, True)


def test_streams_do_not_tell_priorities_as_the_vendors_do_not() -> None:
    with pytest.raises(RuntimeError, match="does not support Stream"):
        torch.npu.Stream.priority_range()
    with pytest.raises(RuntimeError, match="priority"):
        _ = torch.npu.Stream().priority


@pytest.mark.parametrize(
    "use",
    [
        lambda stream: stream.synchronize(),
        lambda stream: stream.query(),
        lambda stream: stream.record_event(),
        lambda stream: stream.wait_event(torch.npu.Event()),
        lambda stream: stream.wait_stream(torch.npu.Stream()),
        lambda stream: torch.npu.Event().record(stream),
        lambda stream: torch.npu.ExternalEvent().wait(stream),
    ],
)
def test_an_external_stream_only_takes_work(use: Callable[[Any], Any]) -> None:
    stream = torch.npu.ExternalStream(4096)
    with torch.npu.stream(stream):
        assert torch.npu.current_stream().stream_id == 4096
        assert (torch.ones(2, device="npu") + 1).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="not supported on an ExternalStream"):
        use(stream)


def test_a_stream_may_be_entered_again_while_it_is_current() -> None:
    before, first, second = torch.npu.current_stream(), torch.npu.Stream(), torch.Stream()
    with first, second:
        with first, first:
            assert torch.npu.current_stream() == first
        assert torch.npu.current_stream() == second
    assert torch.npu.current_stream() == before


def test_events_tell_their_time() -> None:
    start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    for error in (RuntimeError, ValueError):  # torch.npu.Event raises the one, torch.Event the other
        with pytest.raises(error, match="Both events must be recorded"):
            start.elapsed_time(end)
    with pytest.raises(RuntimeError, match="must be recorded before getting"):
        start.recorded_time()
    start.record()
    torch.npu._sleep(2_000_000)
    end.record()
    assert start.elapsed_time(end) >= 1.0  # at 1.85 GHz it is 1.08 ms
    assert end.recorded_time() > start.recorded_time()


def test_an_external_event_is_used_again_after_a_reset() -> None:
    event = torch.npu.ExternalEvent()
    event.wait()
    event.record()
    assert event.npu_event != 0
    event.reset()
    assert event.npu_event == 0


def test_an_event_goes_to_another_process_by_its_handle() -> None:
    event = torch.npu.Event(interprocess=True)
    event.record()
    handle = event.ipc_handle()
    assert len(handle) == 64
    assert torch.npu.Event.from_ipc_handle("npu:0", handle).recorded_time() == event.recorded_time()
    copy = pickle.loads(ForkingPickler.dumps(event))
    assert copy.recorded_time() == event.recorded_time()


@pytest.mark.parametrize("handle", [b"short", b"\0" * 64])
def test_bytes_that_are_no_handle_make_no_event(handle: bytes) -> None:
    with pytest.raises(RuntimeError):
        torch.npu.Event.from_ipc_handle("npu:0", handle)


def test_a_neutral_event_can_be_waited_for() -> None:
    start, end = (torch.Event(device="npu", enable_timing=True) for _ in range(2))
    start.record()
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) >= 0
    assert isinstance(start, torch.Event)
    assert isinstance(start, torch.npu.Event)
    assert not isinstance(object(), torch.Event)


def test_a_neutral_stream_is_a_stream_of_the_npu() -> None:
    stream = torch.Stream(device="npu:0")
    assert isinstance(stream, torch.npu.Stream)
    assert isinstance(stream, torch.Stream)
    assert issubclass(torch.npu.Stream, torch.Stream)
    stream.record_event().synchronize()


@pytest.mark.parametrize(
    ("operation", "waits"),
    [
        (lambda x: x.sum().item(), True),
        (lambda x: x.cpu(), True),
        (lambda x: torch.empty(3).copy_(x, non_blocking=True), False),
        (lambda x: x.copy_(torch.zeros(3)), True),
        (lambda x: x.copy_(torch.zeros(3), non_blocking=True), False),
        (lambda x: x.nonzero(), True),
        (lambda x: torch.npu.current_stream().synchronize(), True),
        (lambda x: (x + x).relu_(), False),
    ],
)
def test_the_sync_debug_mode_finds_what_waits(operation: Callable[[Any], Any], waits: bool) -> None:
    x = torch.ones(3, device="npu")
    with emulate():
        torch.npu.set_sync_debug_mode("error")
        if waits:
            with pytest.raises(RuntimeError, match="called a synchronizing NPU operation"):
                operation(x)
        else:
            operation(x)
    operation(x)  # the mode has ended with the block


def test_the_sync_debug_mode_may_only_warn() -> None:
    x = torch.ones(3, device="npu")
    with emulate():
        torch.npu.set_sync_debug_mode("warn")
        assert torch.npu.get_sync_debug_mode() == 1
        with pytest.warns(UserWarning, match="called a synchronizing NPU operation"):
            x.sum().item()
        torch.npu.set_sync_debug_mode(0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            x.sum().item()
    with pytest.raises(RuntimeError, match="invalid value of debug_mode, expected one of `default`"):
        torch.npu.set_sync_debug_mode("loud")
    with pytest.raises(RuntimeError, match="invalid value of debug_mode, expected one of 0,1,2"):
        torch.npu.set_sync_debug_mode(3)


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages_know_the_npu() -> None:
    x = torch.arange(3.0, device="npu")
    assert (x.untyped_storage().is_npu, x.cpu().untyped_storage().is_npu) == (True, False)
    moved = x.cpu().untyped_storage().npu()
    assert moved.device == torch.device("npu:0")
    assert moved.npu() is moved
    assert torch.empty(0, device="npu").set_(x.cpu()._typed_storage().npu()).tolist() == [0, 1, 2]
    assert isinstance(x._typed_storage(), torch.npu.FloatStorage)
    assert not isinstance(x._typed_storage(), torch.npu.HalfStorage)
    assert torch.npu.HalfStorage(4).device == torch.device("npu:0")


def test_the_old_types_convert() -> None:
    assert torch.ones(2, device="npu").type(torch.npu.HalfTensor).dtype == torch.float16
    assert torch.ones(2, device="npu").type() == "torch.npu.FloatTensor"
    assert isinstance(torch.npu.LongTensor([1, 2]), torch.npu.LongTensor)
    assert torch.npu.FloatTensor(np.array([1, 2])).tolist() == [1.0, 2.0]
    assert torch.npu.FloatTensor(2, 3).shape == torch.npu.FloatTensor(torch.Size([2, 3])).shape == (2, 3)


def test_erasing_a_stream_takes_tensors_and_streams_only() -> None:
    import torch_npu

    x, stream = torch.ones(2, device="npu"), torch.npu.Stream()
    x.record_stream(stream)
    torch_npu.erase_stream(x, stream)
    with pytest.raises(TypeError, match=r"should be torch\.Tensor"):
        torch_npu.erase_stream([1], stream)
    with pytest.raises(TypeError, match=r"should be torch_npu\.npu\.Stream"):
        torch_npu.erase_stream(x, torch.npu.Event())
