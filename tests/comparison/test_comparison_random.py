"""Operators that draw random numbers: runs that drew other numbers are told so, and no operator is accused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from recording_builder import Run

from jumar.capture import record
from jumar.comparison import Comparison, compare
from jumar.operators import has
from jumar.operators.schemas import schema
from jumar.recording import Recording

GIVEN = {"p": 0.5, "dropout_p": 0.5, "dropout": 0.5, "train": True, "training": True}
"""Arguments with which an operator draws that may draw."""


def tagged() -> Iterator[str]:
    """Yield every aten operator that PyTorch tags as drawing random numbers."""
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        namespace, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        if namespace != "aten":
            continue
        operator = getattr(getattr(torch.ops.aten, base), overload or "default")
        if torch.Tag.nondeterministic_seeded in operator.tags:
            yield name


def runs(name: str, **arguments: object) -> Comparison:
    """Return the comparison of two runs in which the operator gives other values for equal inputs."""
    pair = []
    for seed in (0, 1):
        run = Run()
        x = np.random.default_rng(7).standard_normal((16, 16)).astype(np.float32)
        drawn = np.random.default_rng(seed).random((16, 16)).astype(np.float32)
        run.call("aten::add.Tensor", [run.call(name, [x], [drawn], arguments=arguments)], [drawn + 1.0])
        pair.append(run)
    return compare(*pair)


@pytest.mark.parametrize("name", [name for name in tagged() if not has(name, "never_draws")])
def test_other_random_numbers_are_no_divergence(name) -> None:
    known = schema(name)
    assert known is not None
    found = runs(name, **{key: GIVEN[key] for key in known.names if key in GIVEN})
    assert (found.status, found.findings[0].code) == ("incomparable", "JM307")


@pytest.mark.parametrize("name", [name for name in tagged() if has(name, "never_draws")])
def test_an_operator_that_draws_nothing_is_judged_by_its_values(name) -> None:
    assert runs(name).status != "incomparable" or runs(name).findings[0].code != "JM307"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("aten::native_dropout", {"p": 0.5, "train": False}),
        ("aten::native_dropout", {"p": 0.0, "train": True}),
        ("aten::rrelu_with_noise", {"training": False}),
        ("aten::_scaled_dot_product_flash_attention", {"dropout_p": 0.0}),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", {}),
    ],
)
def test_a_call_that_draws_nothing_by_its_arguments_diverges(name, arguments) -> None:
    found = runs(name, **arguments)
    assert found.status == "diverge"
    assert found.first_divergence is not None
    assert found.first_divergence.reference_name == name


DRAWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "aten::_standard_gamma": torch._standard_gamma,
    "aten::binomial": lambda x: torch.binomial(torch.full_like(x, 20.0), x / x.max()),
    "aten::poisson": torch.poisson,
    "aten::_sample_dirichlet": torch._sample_dirichlet,
    "aten::exponential": lambda x: torch.empty_like(x).exponential_(),
}


@pytest.mark.parametrize("name", DRAWS)
def test_recorded_draws_with_another_seed_are_told(name, tmp_path: Path) -> None:
    def recorded(seed: int) -> Recording:
        torch.manual_seed(0)
        x = torch.rand(32, 32) + 1.0
        model = torch.nn.Linear(32, 4)
        folder = tmp_path / str(seed)
        with record(str(folder), model=model):
            torch.manual_seed(seed)
            model(DRAWS[name](x)).sum().backward()
        return Recording.open(folder)

    found = compare(recorded(0), recorded(1))
    assert (found.status, found.findings[0].code) == ("incomparable", "JM307")
    assert name.removeprefix("aten::") in found.findings[0].message
