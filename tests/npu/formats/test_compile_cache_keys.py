"""What is compiled again and what is not."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from jumar.base.errors import OutputError
from jumar.device import DevicePlan, activate, emulate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

from jumar.npu.core.events import OperatorEvent  # noqa: E402
from jumar.npu.formats.ledger import compile_cache, ledger  # noqa: E402  # the emulator's parts need the device


@pytest.fixture(autouse=True)
def first_generation():
    with emulate("Ascend910A", numerics="exact", unsupported="fallback"):
        ledger.forget_compiled()
        ledger.reset_counts()
        yield


def compiles(function, *args, **kwargs):
    before = ledger.counts().num_compiles
    function(*args, **kwargs)
    return ledger.counts().num_compiles - before


def ones(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype).npu()


def test_a_known_operator_is_not_compiled_again():
    x = ones(3, 4)
    assert [compiles(x.relu) for _ in range(3)] == [1, 0, 0]
    assert ledger.counts().num_compile_hits == 2


def test_shapes_dtypes_and_formats_are_part_of_the_key():
    x = ones(2, 3, 4, 4)
    compiles(x.relu)
    others = [ones(2, 3, 4, 5), x.half(), x.npu_format_cast(3)]
    assert [compiles(other.relu) for other in others] == [1, 1, 1]


def test_attributes_are_part_of_the_key_and_numbers_are_not():
    x = ones(3, 4)
    assert [compiles(x.sum, dim) for dim in (0, 1, 0)] == [1, 1, 0]
    assert [compiles(torch.add, x, x, alpha=alpha) for alpha in (1, 2, 3)] == [1, 0, 0]
    assert [compiles(x.mul, factor) for factor in (2.0, 3.0)] == [1, 0]


def test_devices_share_what_is_compiled():
    x = ones(3, 4)
    compiles(x.relu)
    compiles(x.relu)
    assert compiles(x.relu) == 0


def test_without_online_compilation_nothing_is_compiled():
    torch.npu.set_compile_mode(jit_compile=False)
    assert compiles(ones(5, 5).relu) == 0
    with emulate("Ascend910B1"), ledger.follow(lambda _: None):
        assert compiles(ones(5, 6).relu) == 0
        torch.npu.set_compile_mode(jit_compile=True)
        assert compiles(ones(5, 6).relu) == 1


def test_views_allocations_and_transfers_compile_nothing():
    assert compiles(lambda: ones(3, 4).view(12)[1:].cpu()) == 0  # noqa: PLW0108  # making the tensor is part of it


def train(batches):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 1)).npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ledger.reset_counts()
    for batch in batches:
        optimizer.zero_grad()
        model(ones(batch, 8)).sum().backward()
        optimizer.step()


def test_fixed_shapes_compile_in_the_first_step_only():
    train([4, 4, 4])
    counts = ledger.counts()
    assert [step.num_compiles > 0 for step in counts.steps] == [True, False, False, False]
    assert ledger.recompiling() == ()


def test_what_keeps_compiling_is_named_with_the_dimension_that_varies():
    train([4, 5, 6])
    found = ledger.recompiling()
    assert (
        "aten::relu was compiled 2 times after the first steps: dimension 0 of self takes 3 values (4, 5, 6)." in found
    )
    assert all("dimension 0" in sentence or "attribute" in sentence or "dimension 1" in sentence for sentence in found)


def test_a_last_batch_that_is_smaller_shows():
    train([4, 4, 3])
    assert [step.num_compiles > 0 for step in ledger.counts().steps] == [True, False, True, False]


def test_marked_steps_take_the_place_of_the_optimizers():
    parameter = nn.Parameter(ones(3))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    parameter.grad = ones(3)
    optimizer.step()
    ledger.mark_step()
    optimizer.step()
    optimizer.step()
    ledger.mark_step()
    assert len(ledger.counts().steps) == 4


def test_of_several_optimizers_the_first_ends_steps():
    first, second = (torch.optim.SGD([nn.Parameter(ones(3))], lr=0.1) for _ in range(2))
    for _ in range(3):
        first.step()
        second.step()
        second.step()
    assert len(ledger.counts().steps) == 4


# On disk


def use(folder, mode="enable"):
    torch.npu.set_option({"ACL_OP_COMPILER_CACHE_MODE": mode, "ACL_OP_COMPILER_CACHE_DIR": str(folder)})


def test_a_folder_keeps_what_is_compiled_for_the_next_process(tmp_path):
    use(tmp_path)
    x = ones(3, 7)
    assert compiles(x.relu) == 1
    ledger.forget_compiled()
    assert compiles(x.relu) == 0
    use(tmp_path, "disable")
    ledger.forget_compiled()
    assert compiles(x.relu) == 1


def test_forcing_removes_what_the_folder_held(tmp_path):
    use(tmp_path)
    ones(3, 7).relu()
    (tmp_path / "mine.txt").write_text("")
    ledger.forget_compiled()
    use(tmp_path, "force")
    assert compiles(ones(3, 7).relu) == 1
    assert ((tmp_path / "mine.txt").exists(), len(list(tmp_path.glob("operator-*.key")))) == (True, 1)


def test_chips_do_not_share_what_is_compiled(tmp_path):
    use(tmp_path)
    ones(3, 7).relu()
    with emulate("Ascend910ProA", numerics="exact", unsupported="fallback"):
        ledger.forget_compiled()
        assert compiles(ones(3, 7).relu) == 1


def test_a_folder_that_is_not_there_is_told(tmp_path):
    use(tmp_path / "none")
    with pytest.raises(OutputError, match="ACL_OP_COMPILER_CACHE_DIR must be a folder that exists"):
        ones(3, 7).relu()


def test_a_storage_is_one_attribute_of_an_operator():
    x = ones(4)
    empty = torch.empty(0, device="npu")
    assert empty.set_(x.untyped_storage(), 0, (4,), (1,)).tolist() == [1.0] * 4
    assert compile_cache.attributes_of(
        OperatorEvent("aten::set_.source_Storage", (empty, x.untyped_storage()), {}, empty, 0, 0)
    ) == {"source": "storage of 16 bytes"}
