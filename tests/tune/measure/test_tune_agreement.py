"""Outputs agree within the dtype's rounding, and every other difference is seen."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from jumar.tune.measure.worker.agreement import Rule, compare


def mm(left, right):
    return torch.ops.aten.mm(left, right)


@pytest.fixture
def tensors():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(16, 400, generator=generator), torch.randn(400, 16, generator=generator)]


def test_another_order_of_the_same_sum_agrees(tensors):
    def halves(left, right):
        return mm(left[:, 200:], right[200:]) + mm(left[:, :200], right[:200])

    agreement = compare(mm, halves, tensors)
    assert agreement.detail == ""
    assert 0 < agreement.worst_error < agreement.allowed_error < 1e-5


def test_the_tolerance_is_the_dtypes_own(tensors):
    half = [tensor.bfloat16() for tensor in tensors]
    assert compare(mm, lambda left, right: mm(left.float(), right.float()).bfloat16(), half).detail == ""
    assert "its error is" in compare(mm, lambda *two: mm(*(one.bfloat16() for one in two)).float(), tensors).detail


@pytest.mark.parametrize(
    ("candidate", "said"),
    [
        (lambda left, right: mm(left, right) * 1.001, "its error is"),
        (lambda left, right: mm(left, right).double(), "its dtype is torch.float64"),
        (lambda left, right: mm(left, right)[:8], "its shape is"),
        (lambda left, right: mm(left, right).t().contiguous().t(), "its strides are (1, 16)"),
        (lambda left, right: (mm(left, right), left), "it returns 2 tensors"),
        (lambda left, right: mm(left.mul_(1.0001), right), "it changes its inputs"),
        (lambda left, right: mm(left, right).index_fill_(0, torch.tensor([3]), float("nan")), "NaN or Inf"),
    ],
)
def test_each_kind_of_difference_is_named(tensors, candidate, said):
    assert said in compare(mm, candidate, tensors).detail


def test_nan_where_the_operator_has_nan_agrees():
    masked = torch.full((2, 4), -torch.inf)
    masked[0] = 1.0
    assert compare(lambda x: torch.softmax(x, -1), lambda x: torch.softmax(x, -1), [masked]).detail == ""
    assert compare(lambda x: torch.softmax(x, -1), lambda x: torch.softmax(x, -1).nan_to_num(), [masked]).detail != ""


def test_integers_must_be_equal():
    image = torch.randn(1, 2, 4, 4)

    def pool(x):
        return torch.ops.aten.max_pool2d_with_indices(x, [2, 2])

    assert compare(pool, pool, [image]).detail == ""
    assert compare(pool, lambda x: (pool(x)[0], pool(x)[1] + 1), [image]).detail == "its integers differ"


def test_an_operator_without_a_float64_kernel_is_compared_all_the_same():
    def only_float32(x):
        if x.dtype is torch.float64:
            raise NotImplementedError
        return x.exp()

    values = [torch.randn(50)]
    assert compare(only_float32, only_float32, values).detail == ""
    assert compare(only_float32, lambda x: x.exp() * 1.01, values).detail != ""


@pytest.mark.parametrize("place", [0, 7, 8, 18])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 3.0])
def test_large_outputs_are_compared_piece_by_piece_to_their_last_value(monkeypatch, place, wrong):
    monkeypatch.setattr("jumar.tune.measure.worker.judged.PIECE", 8)

    def off(tensor):
        made = tensor * 2
        made[place] = wrong
        return made

    given = [torch.linspace(1, 2, 19)]
    assert not compare(lambda tensor: tensor * 2, lambda tensor: tensor + tensor, given).detail
    assert compare(lambda tensor: tensor * 2, off, given).detail
    assert not compare(off, off, given).detail, "the same in the same place"


# ---- what rounding comes to --------------------------------------------------------------------------------------


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class Images(nn.Module):
    """Fifteen convolutions in a row, each normalised, and a mean over the pixels."""

    def __init__(self, convolve=functional.conv2d) -> None:
        super().__init__()
        self.convolve, self.wrong = convolve, 0.0
        self.filters = [drawn(16, 16, 3, 3, seed=seed) / 12 for seed in range(15)]
        self.last = drawn(16, 10)

    def forward(self, x):
        return self.images(x).mean((2, 3)) @ self.last.to(x.dtype)

    def images(self, x):
        for number, filters in enumerate(self.filters):
            made = self.convolve(x, filters.to(x.dtype), padding=1)
            x = (made - made.mean()) / made.std()
            x = x.relu() + x * 0.25
            if number == 7 and self.wrong:
                x[:, :, 3, 5:7] += self.wrong
        return x


DEPTH = Rule(num_operators=120)


def winograd(x, filters, padding):
    """F(4x4, 3x3) with the usual points (A. Lavin and S. Gray, 2016), which round ten times as much as a sum."""
    before = torch.tensor(
        [[4, 0, -5, 0, 1, 0], [0, -4, -4, 1, 1, 0], [0, 4, -4, -1, 1, 0],
         [0, -2, -1, 2, 1, 0], [0, 2, -1, -2, 1, 0], [0, 4, 0, -5, 0, 1]], dtype=x.dtype,
    )  # fmt: skip
    weights = torch.tensor(
        [[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]], dtype=x.dtype
    ).div(24)  # fmt: skip
    after = torch.tensor([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]],
                         dtype=x.dtype)  # fmt: skip
    tiles = functional.pad(x, [padding] * 4).unfold(2, 6, 4).unfold(3, 6, 4)
    points = torch.einsum("kcij,nchwij->nkhwij", weights @ filters @ weights.T, before @ tiles @ before.T)
    made = after @ points @ after.T
    return made.permute(0, 1, 2, 4, 3, 5).reshape(x.shape[0], -1, *x.shape[2:])


def by_taps(x, filters, padding):
    """Another order of the same sum: tap by tap, one channel after the other."""
    padded, made = functional.pad(x, [padding] * 4), torch.zeros_like(x)
    for channel in range(x.shape[1]):
        for row in range(3):
            for column in range(3):
                taken = padded[:, channel : channel + 1, row : row + x.shape[2], column : column + x.shape[3]]
                made += taken * filters[:, channel, row, column].view(1, -1, 1, 1)
    return made


def same_images(convolve) -> Images:
    made = Images(convolve)
    made.filters, made.last = IMAGES.filters, IMAGES.last
    return made


IMAGES = Images()


@pytest.mark.parametrize("convolve", [winograd, by_taps])
def test_ways_to_convolve_that_round_more_agree(convolve):
    x, other = drawn(2, 16, 16, 16, seed=2), same_images(convolve)
    assert compare(IMAGES, other, [x], DEPTH).detail == ""
    agreement = compare(IMAGES.images, other.images, [x], DEPTH)
    assert (agreement.detail, agreement.worst_error > 0) == ("", True)


def test_pixels_inside_that_are_wrong_are_more_than_rounding():
    """Fewer than the roundings of so many operators could come to, and more than they do in this graph."""
    x, faulty = drawn(2, 16, 16, 16), same_images(functional.conv2d)
    faulty.wrong = 0.0008
    agreement = compare(IMAGES, faulty, [x], DEPTH)
    assert 8e-7 < agreement.worst_error < 8 * torch.finfo(torch.float32).eps * 120**0.5
    assert "its error is" in agreement.detail


def approximate_gelu(x):
    """By the error function of M. Abramowitz and I. Stegun, 7.1.26, which is off by up to 1.5e-7."""
    z = x.abs() / 2**0.5
    t = 1 / (1 + 0.3275911 * z)
    terms = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
    erf = 1 - sum(term * t**power for power, term in enumerate(terms, 1)) * torch.exp(-z * z)
    return x * 0.5 * (1 + erf * x.sign())


def test_a_fused_approximation_agrees():
    matrices = [drawn(64, 64, seed=seed) / 8 for seed in range(12)]

    def network(activation):
        def call(x):
            for matrix in matrices:
                x = x + functional.layer_norm(activation(x @ matrix.to(x.dtype)), (64,))
            return x

        return call

    x = drawn(32, 64)
    assert compare(network(functional.gelu), network(approximate_gelu), [x], Rule(num_operators=48)).detail == ""


def test_a_default_that_is_right_by_chance_does_not_refuse_others():
    """A single number at the end of many operators, which one way of computing hits and another does not."""

    def through_all(x):
        total = x.new_zeros(())
        for row in x:
            total = total * 0.9 + row.sin().sum()
        return total

    def backwards(x):
        return through_all(x.flip(1))

    found = [compare(through_all, backwards, [drawn(64, 16, seed=seed)], Rule(num_operators=256)) for seed in range(20)]
    assert not any(one.detail for one in found)
    assert any(
        one.worst_error > 4 * compare(through_all, through_all, [drawn(64, 16, seed=seed)]).worst_error
        for seed, one in enumerate(found)
    )


def test_few_numbers_beyond_a_step_do_not_allow_all_others_to_be_off():
    """0.7 times 10 is 7 in float32 and less in float64, so that the default itself is off by a whole step there."""
    x = drawn(1000).abs()
    x[0] = 0.7

    def steps(x):
        return torch.floor(x * 10)

    assert compare(steps, steps, [x]).detail == ""
    assert "of its length" in compare(steps, lambda x: steps(x) + 3, [x]).detail


def test_numbers_that_decide_what_is_looked_up_are_judged_all_the_same():
    """Where they cannot be moved without leaving the table, the number of operators is what is left to judge by."""
    table = torch.linspace(1, 2, 5)

    def looked_up(x):
        return table.to(x.dtype)[(x * 4).ceil().long()] * x

    x = torch.tensor([0.3, 1.0])
    assert compare(looked_up, lambda x: looked_up(x) * (1 + 2e-6), [x], Rule(num_operators=100)).detail == ""
    assert compare(looked_up, lambda x: looked_up(x) * (1 + 2e-5), [x], Rule(num_operators=100)).detail != ""


def test_written_inputs_are_no_gradients():
    """They come last, behind the gradients, and what a gradient may be off by is not theirs."""
    jump = [0.01]

    def plain(state, x):
        state += x
        return [x * 1.0, x[:2] * (1 + jump[0] if x.dtype is torch.float32 else 1)]

    def candidate(state, x):
        state += x * 1.001
        return [x * 1.0, x[:2] * 1.0]

    given = [torch.ones(2000), torch.linspace(1, 2, 2000)]
    assert compare(plain, plain, given, Rule(num_gradients=2, written=[0])).detail == ""
    assert "greatest value" in compare(plain, candidate, given, Rule(num_gradients=2, written=[0])).detail
