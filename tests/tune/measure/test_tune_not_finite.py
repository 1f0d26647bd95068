"""A candidate that loses a NaN or an infinity is measured, and what it loses is told."""

from __future__ import annotations

import odd_providers as odd
import pytest
import torch
from tune_builders import QUICK, gain, measured, mm_task

from jumar.tune.bank.entry import Tried, warning_of
from jumar.tune.graph.inputs import NOT_FINITE, put_not_finite
from jumar.tune.measure.worker.agreement import Judge
from jumar.tune.measure.worker.messages import Outcome, Trial
from jumar.tune.measure.worker.trial import run_trial
from jumar.tune.model.task import Policy


class Drops(odd.Odd):
    """Makes numbers of what is none."""

    name = "drops"

    def __init__(self, kinds=NOT_FINITE):
        self.kinds = kinds

    def compute(self, function, tensors):
        made = function(*tensors)
        if "NaN" in self.kinds:
            made = torch.where(made.isnan(), 0, made)
        return torch.where(made.isinf(), 1, made) if "Inf" in self.kinds else made


class Fails(odd.Odd):
    """Raises for inputs that are not finite."""

    name = "fails"

    def compute(self, function, tensors):
        if not all(bool(torch.isfinite(one).all()) for one in tensors):
            raise ValueError("not finite")
        return function(*tensors)


@pytest.mark.parametrize(
    ("provider", "kinds"),
    [(odd.Same(), ()), (Drops(), NOT_FINITE), (Drops(("NaN",)), NOT_FINITE), (Fails(), NOT_FINITE)],
)
def test_a_trial_says_on_which_numbers_outputs_differ(tmp_path, provider, kinds):
    trial = Trial(task=mm_task(), incumbent=(), candidate=(provider.policy(),), num_threads=1, effort=QUICK)
    outcome = run_trial(trial, [provider], lambda phase: None, tmp_path)
    assert (outcome.status, tuple(outcome.differs_on)) == ("measured", kinds)  # a product of Inf and -Inf has NaN, too
    assert Outcome.from_json(outcome.to_json()) == outcome


PAIRS = {
    "relu by a comparison": (torch.relu, lambda x: torch.where(x > 0, x, torch.zeros_like(x)), {"NaN"}),
    "a maximum": (lambda x: x.amax(-1), lambda x: x.nan_to_num(-9.0, posinf=float("inf")).amax(-1), {"NaN"}),
    "silu": (torch.nn.functional.silu, lambda x: x * torch.sigmoid(x).clamp(1e-9), {"Inf"}),
    "a difference": (lambda x: x - x, lambda x: x * 0, set()),
    "finite numbers": (lambda x: x * 2, lambda x: x * 3, set()),
    "complex": (lambda x: torch.complex(x, x), lambda x: torch.complex(x, x.nan_to_num(0.0)), {"NaN", "Inf"}),
    "integers": (lambda x: x > 0, lambda x: x < 0, set()),
    "PyTorch raises, too": (lambda x: x[x.isnan().long() * 99 + x.isinf().long() * 99], lambda x: x, set()),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("shape", [(9,), (4, 3), (1, 7, 2)])
def test_places_and_signs_count_and_finite_values_do_not(name, shape):
    plain, candidate, differ = PAIRS[name]
    found = set()
    for kind in NOT_FINITE:
        x = torch.rand(shape)
        put_not_finite(x, kind)
        if not Judge(plain, candidate, [x]).agrees_on_not_finite():
            found.add(kind)
    assert found == differ


@pytest.mark.parametrize("shape", [(1,), (2,), (3, 5), (2, 2, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_each_kind_is_put_among_the_numbers(shape, dtype):
    x = torch.zeros(shape, dtype=dtype)
    put_not_finite(x, "NaN")
    assert x.isnan().sum() == 1
    x = torch.zeros(shape, dtype=dtype).t() if len(shape) == 2 else torch.zeros(shape, dtype=dtype)
    put_not_finite(x, "Inf")
    assert x.isinf().sum() == min(2, x.numel())
    assert set(x[x.isinf()].tolist()) <= {float("inf"), float("-inf")}


def test_the_warning_is_of_the_policy_that_was_taken():
    here, other = Policy(kind="Impl", provider="drops"), Policy(kind="Impl", provider="same")
    outcome = Outcome(status="measured", gain=gain(1.5), differs_on=("NaN",))
    tried = [Tried(policy=here, outcome=outcome), Tried(policy=other, outcome=measured(1.5))]
    assert "On inputs with NaN its outputs are finite" in warning_of(tried, here)
    assert warning_of(tried, other) == ""
    assert warning_of([Tried.from_json(one.to_json()) for one in tried], here) == warning_of(tried, here)
