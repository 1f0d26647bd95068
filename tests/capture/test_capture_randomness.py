from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from jumar.capture.notes.operators import operator_info
from jumar.capture.notes.randomness import operator_digest, step_digests


@pytest.mark.parametrize("name", ["rand", "native_dropout", "bernoulli_", "multinomial", "randperm", "_standard_gamma"])
def test_operators_that_draw_are_told_by_their_tag(name: str) -> None:
    packet = getattr(torch.ops.aten, name)
    assert operator_info(getattr(packet, packet.overloads()[0])).draws


@pytest.mark.parametrize(
    "operator",
    [torch.ops.aten.empty.memory_format, torch.ops.aten.add.Tensor, torch.ops.aten._fused_sdp_choice.default],
)
def test_other_operators_draw_nothing(operator: object) -> None:
    assert not operator_info(operator).draws


def test_equal_states_have_equal_digests_and_drawing_changes_only_its_own_generator() -> None:
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    before = step_digests()
    assert step_digests() == before
    torch.rand(1)
    after_torch = step_digests()
    changed = {name for name in before if before[name] != after_torch[name]}
    # An emulated NPU, which another test may have left in this process, draws from the CPU's generator.
    assert {name for name in changed if not name.startswith("npu")} == {"cpu"}
    random.random()
    np.random.rand()
    after = step_digests()
    assert {name for name in before if after_torch[name] != after[name]} == {"python", "numpy"}


def test_an_operators_digest_is_that_of_the_generator_it_draws_from() -> None:
    torch.manual_seed(5)
    own = torch.Generator().manual_seed(5)
    data = torch.ones(3)
    assert operator_digest((data, 0.5), {}) == operator_digest((data,), {"generator": own})
    torch.rand(1, generator=own)
    assert operator_digest((data, 0.5), {}) != operator_digest((data,), {"generator": own})
    assert operator_digest(([4],), {"device": torch.device("cpu")}) == operator_digest((data,), {})


def test_taking_digests_draws_nothing() -> None:
    torch.manual_seed(7)
    expected = torch.rand(4)
    torch.manual_seed(7)
    step_digests()
    operator_digest((expected,), {})
    assert torch.equal(torch.rand(4), expected)
