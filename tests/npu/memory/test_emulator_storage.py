"""Storages on the npu: resized in place, shared between processes, exported, copied and saved; pinned host memory."""

from __future__ import annotations

import copy
import gc
import io
import pickle

import numpy as np
import pytest
import torch
from torch import multiprocessing
from torch.nn.utils import parameters_to_vector

from jumar.device import DevicePlan, activate
from jumar.npu.core import retag
from jumar.npu.core.versions.registration import takes_python_backends
from jumar.npu.memory import sharing

PLAN = DevicePlan(real="never", numerics="exact", unsupported="fallback")
activate(PLAN)


def test_a_storage_is_emptied_and_filled_again_under_its_tensors():
    gc.collect()
    before = torch.npu.memory_allocated()
    x = torch.arange(10.0, device="npu")
    view, storage = x[2:5], x.untyped_storage()
    storage.resize_(0)
    assert (storage.nbytes(), torch.npu.memory_allocated() - before, x.shape) == (0, 0, (10,))
    storage.resize_(40)
    x.copy_(torch.arange(10.0))
    assert (view.tolist(), torch.npu.memory_allocated() - before) == ([2.0, 3.0, 4.0], 512)
    del x, view, storage
    assert torch.npu.memory_allocated() == before


def test_a_grown_storage_keeps_its_contents():
    x = torch.arange(4.0, device="npu")
    x.untyped_storage().resize_(32)
    assert x.untyped_storage().nbytes() == 32
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_growing_a_tensor_grows_it_for_all_that_share_its_storage():
    x = torch.arange(4.0, device="npu")
    view = x[1:3]
    x.resize_(100)
    view.fill_(7)
    assert x[:4].tolist() == [0.0, 7.0, 7.0, 3.0]
    assert view.data_ptr() == x[1:].data_ptr()


def test_set_grows_a_storage_that_is_too_small():
    x = torch.arange(4.0, device="npu")
    y = torch.empty(0, device="npu").set_(x.untyped_storage(), 2, (10,))
    assert (y.shape, y[:2].tolist(), y.untyped_storage().nbytes()) == ((10,), [2.0, 3.0], 48)


def test_parameters_are_freed_and_gathered_as_sharding_does():
    # What FullyShardedDataParallel does to a flat parameter between uses.
    model = torch.nn.Linear(8, 8).npu()
    flat = parameters_to_vector(model.parameters()).detach()
    expected, size = flat.cpu(), flat.untyped_storage().size()
    model.weight.data, model.bias.data = flat[:64].view(8, 8), flat[64:]
    flat.untyped_storage().resize_(0)
    flat.untyped_storage().resize_(size)
    flat.copy_(expected)
    x = torch.ones(2, 8)
    assert torch.equal(model(x.npu()).cpu(), torch.nn.functional.linear(x, expected[:64].view(8, 8), expected[64:]))


@pytest.mark.skipif(not takes_python_backends(), reason="a tensor is not turned where it stands before torch 2.10")
def test_a_taken_tensor_is_the_tensor_itself_and_others_are_not_touched():
    alone = torch.ones(3)
    pointer = alone.data_ptr()
    assert (retag.turn(alone), alone.device.type, alone.data_ptr()) == (True, "npu", pointer)
    base = torch.ones(4)
    view = base[1:]
    taken = retag.take(view)
    assert (retag.turn(base), base.device.type, view.device.type, taken.device.type) == (False, "cpu", "cpu", "npu")
    assert not retag.turn(torch.eye(2).to_sparse())


def test_copies_and_files_keep_device_sharing_and_contents():
    x = torch.arange(4.0, device="npu")
    first, second = copy.deepcopy([x, x[1:]])
    assert (first.device.type, first[1:].data_ptr() == second.data_ptr()) == ("npu", True)
    assert pickle.loads(pickle.dumps(x)).tolist() == x.tolist()
    file = io.BytesIO()
    torch.save({"x": x, "view": x[1:]}, file)
    for where, device in ((None, "npu:0"), ("cpu", "cpu")):
        file.seek(0)
        loaded = torch.load(file, map_location=where)
        assert (str(loaded["x"].device), loaded["view"].tolist()) == (device, [1.0, 2.0, 3.0])
        assert loaded["view"].untyped_storage().data_ptr() == loaded["x"].untyped_storage().data_ptr()


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize("convert", [lambda x: x.numpy(), np.array, np.asarray], ids=["numpy", "array", "asarray"])
def test_numpy_is_refused_as_on_a_device(convert):
    with pytest.raises(TypeError, match=r"Use Tensor.cpu\(\) to copy the tensor to host memory first"):
        convert(torch.ones(2, device="npu"))


def test_dlpack_shares_the_memory_and_says_it_is_an_extension_device():
    x = torch.arange(4.0, device="npu")
    assert x.__dlpack_device__() == (12, 0)
    same = torch.from_dlpack(x)
    same.add_(1)
    assert (same.device, x.tolist()) == (x.device, [1.0, 2.0, 3.0, 4.0])
    with pytest.raises(RuntimeError, match="Unsupported device"):
        np.from_dlpack(x)


def test_a_shared_storage_moves_once_and_keeps_its_identity():
    x = torch.arange(4.0, device="npu")
    storage, view = x.untyped_storage(), x[1:]
    twin = sharing.share(storage)
    assert (sharing.share(storage) is twin, twin.data_ptr() == x.data_ptr()) == (True, True)
    x.add_(1)
    assert view.tolist() == [2.0, 3.0, 4.0]


def _add_one(inbox, outbox):
    x, view = inbox.get()
    x.add_(1)
    outbox.put((x.device.type, view.tolist()))
    inbox.get()


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_processes_see_each_others_writes(method, monkeypatch):
    for name, value in PLAN.to_environment().items():
        monkeypatch.setenv(name, value)
    context = multiprocessing.get_context(method)
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=_add_one, args=(inbox, outbox))
    process.start()
    x = torch.arange(4.0, device="npu")
    inbox.put((x, x[1:]))
    assert outbox.get(timeout=120) == ("npu", [2.0, 3.0, 4.0])
    inbox.put(None)
    process.join(60)
    assert (process.exitcode, x.tolist()) == (0, [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(3, pin_memory=True),
        lambda: torch.zeros(3, pin_memory=True),
        lambda: torch.randn(3, pin_memory=True),
        lambda: torch.tensor([1.0, 2.0], pin_memory=True),
        lambda: torch.ones_like(torch.ones(2), pin_memory=True),
        lambda: torch.ones(2).new_empty(3, pin_memory=True),
        lambda: torch.ones(3).pin_memory()[1:],
    ],
    ids=["empty", "zeros", "randn", "tensor", "ones_like", "new_empty", "pin_memory"],
)
def test_pinned_memory_is_made_and_known(make):
    pinned = make().nan_to_num_()  # memory that nobody wrote may hold NaN, which equals nothing
    assert (pinned.is_pinned(), pinned.device.type, torch.equal(pinned.npu().cpu(), pinned)) == (True, "cpu", True)


def test_a_copy_to_the_host_that_may_still_be_under_way_is_in_pinned_memory():
    x = torch.arange(6.0).reshape(2, 3).t().npu()
    for moved in (x.to("cpu", non_blocking=True), x.to("cpu", torch.float16, non_blocking=True)):
        assert (moved.is_pinned(), moved.stride(), moved.tolist()) == (True, x.stride(), x.tolist())
    assert not x.to("cpu").is_pinned()
    assert not x.cpu().to("cpu", torch.float16, non_blocking=True).is_pinned()


def test_other_memory_is_not_pinned():
    assert not torch.empty(3).is_pinned()
    assert not torch.empty(3, pin_memory=True).clone().is_pinned()
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        torch.empty(3, device="npu", pin_memory=True)


def test_every_generator_is_an_instance_of_the_class_of_generators():
    generators = [torch.default_generator, torch.npu.default_generators[0], torch.Generator(), torch.Generator("npu")]
    assert [isinstance(item, torch.Generator) for item in generators] == [True] * 4
    assert not isinstance(3, torch.Generator)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int64, torch.bool, torch.float16, torch.complex64])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_memory_that_a_resize_adds_is_filled_as_on_the_cpu_where_algorithms_are_deterministic(dtype, memory_format):
    found = []
    torch.use_deterministic_algorithms(True)
    try:
        for device in ("cpu", "npu"):
            whole = torch.zeros(7, dtype=dtype, device=device)
            part = whole[2:].resize_((1, 2, 3, 4), memory_format=memory_format)
            found.append(part.cpu())
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=0, equal_nan=True)
    assert found[1].ne(0).sum() == 19


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_a_resize_to_the_same_shape_keeps_strides_and_storage(device):
    x = torch.zeros(3, device=device).as_strided((2, 3), (0, 1))
    x.resize_((2, 3))
    assert (x.stride(), x.untyped_storage().nbytes()) == ((0, 1), 12)
