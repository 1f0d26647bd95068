"""Comparing from sketches: what accuses, what excuses, and what is said of mixed recordings."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from jumar.capture import record
from jumar.comparison import compare
from jumar.comparison.measure.distances import Measure, measure, saturates
from jumar.comparison.measure.loading import Loader, no_tensor
from jumar.comparison.measure.records import tensor_diff
from jumar.recording import TensorRow, Values, sketch


def draw(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def row(values: np.ndarray, *, sketched: bool = True, statistics: bool = True, digest: str = "") -> TensorRow:
    wide = values.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    figures = (
        {
            "minimum": float(finite.min()),
            "maximum": float(finite.max()),
            "mean": float(finite.mean()),
            "l2": math.sqrt(float(np.square(finite).sum())),
            "num_nan": int(np.isnan(wide).sum()),
            "num_inf": int(np.isinf(wide).sum()),
        }
        if statistics
        else {}
    )
    return TensorRow(
        name="output.0",
        shape=values.shape,
        dtype="float32",
        device="cpu",
        stride=(),
        storage_offset=0,
        contiguous=True,
        storage=1,
        sketch=sketch.sketch_of(values) if sketched else None,
        hash=digest,
        **figures,  # type: ignore[arg-type]  # mypy joins the types of the figures
    )


def measured(a: np.ndarray, b: np.ndarray) -> Measure:
    return measure(row(a), row(b))


def true_distance(a: np.ndarray, b: np.ndarray) -> float:
    return math.sqrt(float(np.square(b.astype(np.float64) - a).sum()))


A = draw(0, 64, 256)


@pytest.mark.parametrize(
    "b", [A[::-1], np.roll(A, 1, 0), A[:, ::-1], A[np.random.default_rng(1).permutation(64)]], ids=str
)
def test_elements_that_changed_places_show_though_the_statistics_are_equal(b: np.ndarray) -> None:
    found, by_statistics = measured(A, b), measure(row(A, sketched=False), row(b, sketched=False))
    assert by_statistics.error() < 1e-6
    assert found.evidence == "sketches"
    assert found.sees_places
    assert 0.4 < found.error() < 1.0


@pytest.mark.parametrize("size", [1e-6, 1e-3, 1.0])
def test_what_accuses_is_below_the_truth_and_what_excuses_above_it(size: float) -> None:
    for seed in range(40):
        a = draw(seed, 40, 100)
        b = (a + size * draw(seed + 1000, 40, 100)).astype(np.float32)
        found, true = measured(a, b), true_distance(a, b)
        assert found.l2_error <= true
        assert found.noise * math.sqrt(a.size) >= true
        assert found.max_error <= np.abs(b - a).max() * (1 + 1e-6)


def test_a_difference_in_one_element_may_be_as_great_as_the_whole_distance() -> None:
    b = A.copy()
    b[3, 5] += 0.5
    found = measured(A, b)
    assert found.sketched is not None
    assert found.sketched.is_concentrated
    assert found.peak >= 0.5
    assert measured(A, (A + 0.01 * draw(5, 64, 256)).astype(np.float32)).peak == 0.0


def test_equal_tensors_are_equal_and_rounding_of_the_sketch_is_no_error() -> None:
    assert measured(A, A).equal
    wobbly = np.frombuffer(sketch.sketch_of(A), "<f4") * np.float32(1 + 1e-7)
    first, second = row(A), row(A)
    object.__setattr__(second, "sketch", sketch.pack(wobbly))
    found = measure(first, second)
    assert found.equal
    assert found.noise > 0


def test_the_public_figures_are_estimates_and_say_so() -> None:
    b = (A + 0.1 * draw(9, 64, 256)).astype(np.float32)
    diff = tensor_diff("output.0", measured(A, b))
    true = true_distance(A, b) / true_distance(A, 0 * A)
    assert diff.evidence == "sketches"
    assert diff.l2_relative == pytest.approx(true, rel=0.3)
    assert diff.cosine == pytest.approx(
        float((A * b).sum()) / true_distance(A, 0 * A) / true_distance(b, 0 * b), abs=5e-3
    )
    assert diff.l2_relative_at_least is not None
    assert diff.l2_relative_at_least <= true
    assert "estimates" in diff.note
    assert (diff.max_abs, diff.num_different) == (None, None)


def loaders(a: np.ndarray | None, b: np.ndarray | None) -> tuple[Loader, Loader]:
    return tuple(no_tensor if side is None else (lambda _tensor, side=side: side) for side in (a, b))  # type: ignore[return-value,misc]


def test_a_whole_tensor_meets_a_sketch_as_a_sketch() -> None:
    b = np.ascontiguousarray(A[::-1])
    found = measure(row(A, sketched=False), row(b), loaders(A, None))
    assert found.evidence == "sketches"
    assert found.error() > 0.4
    assert measure(row(A), row(b, sketched=False), loaders(None, b)).evidence == "sketches"


def test_whole_tensors_on_both_sides_come_before_sketches() -> None:
    assert measure(row(A), row(A[::-1]), loaders(A, A[::-1])).evidence == "tensors"


def test_a_sketch_on_one_side_alone_leaves_the_statistics() -> None:
    assert measure(row(A), row(A[::-1], sketched=False)).evidence == "statistics"
    assert measure(row(A), row(A[::-1], sketched=False), loaders(A, None)).evidence == "statistics"


def test_non_finite_elements_are_no_part_of_the_distance() -> None:
    a, b = A.copy(), A.copy()
    a[0, 0] = b[0, 0] = np.inf
    assert measured(a, b).equal
    b[0, 1] = np.nan
    assert measured(a, b).error() == math.inf


def test_sketches_that_left_float32_say_nothing() -> None:
    huge = np.full((9, 9), 3e38)
    assert saturates(sketch.sketch_of(np.full(4096, 3e38)), sketch.sketch_of(huge))
    assert not saturates(sketch.sketch_of(A), sketch.sketch_of(A))
    assert measured(np.full((64, 64), 3e38), np.full((64, 64), 3.1e38)).evidence == "statistics"


def test_hashes_tell_equal_from_not_equal_and_nothing_more() -> None:
    first, same, other = (row(A, sketched=False, statistics=False, digest=16 * digit) for digit in "aab")
    found = measure(first, same)
    assert (found.equal, found.evidence, tensor_diff("x", found).error) == (True, "hashes", 0.0)
    found = measure(first, other)
    assert (found.equal, found.evidence, found.error()) == (False, "hashes", math.inf)
    diff = tensor_diff("x", found)
    assert (diff.error, diff.l2_relative_at_least) == (None, None)
    assert diff.note == "the hashes differ: not equal, by how much is not known"


# -- whole recordings -----------------------------------------------------------------------------


class Model(nn.Module):
    """A small model whose middle may be turned around, which no statistic of the turned tensor shows."""

    def __init__(self, *, flipped: bool = False) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 64), nn.Linear(64, 32)
        self.flipped = flipped

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.gelu(self.first(x))
        y = y.roll(1, 0) if self.flipped else y.roll(0, 0)
        z: torch.Tensor = self.second(y)
        return z


def recorded(folder: Path, values: Values, *, flipped: bool = False, seed: int = 0) -> Path:
    torch.manual_seed(seed)
    model = Model(flipped=flipped)
    updates = torch.optim.SGD(model.parameters(), lr=0.01)
    with record(folder, model=model, values=values):
        model(torch.randn(48, 32)).square().mean().backward()
        updates.step()
    return folder


def test_a_roll_is_named_at_the_operator_that_rolled(tmp_path: Path) -> None:
    mine = recorded(tmp_path / "a", "sketch")
    found = compare(mine, recorded(tmp_path / "b", "sketch", flipped=True))
    assert found.status == "diverge"
    assert found.evidence == "sketches"
    assert found.first_divergence is not None
    assert found.first_divergence.name == "aten::roll"
    healthy = compare(mine, recorded(tmp_path / "c", "sketch"))
    assert (healthy.status, healthy.evidence) == ("agree", "sketches")


@pytest.mark.parametrize(
    ("other", "status", "evidence", "words"),
    [
        ("stats", "agree", "statistics", "statistics are compared"),
        ("tensors", "agree", "sketches", "sketches are compared, those of whole tensors computed for it"),
        ("hash", "incomparable", None, "they have no values in common"),
        ("none", "incomparable", None, "they have no values in common"),
    ],
)
def test_recordings_with_other_values_are_compared_by_what_both_have(
    tmp_path: Path, other: Values, status: str, evidence: str | None, words: str
) -> None:
    found = compare(recorded(tmp_path / "a", "sketch"), recorded(tmp_path / "b", other))
    assert found.status == status
    assert evidence is None or found.evidence == evidence
    assert f"the reference was recorded with values sketch, the target with {other}: {words}" in found.notes


def test_recordings_of_hashes_agree_or_name_the_first_operator_that_is_not_equal(tmp_path: Path) -> None:
    mine = recorded(tmp_path / "a", "hash")
    assert compare(mine, recorded(tmp_path / "b", "hash")).status == "agree"
    found = compare(mine, recorded(tmp_path / "c", "hash", flipped=True))
    assert found.status == "diverge"
    assert found.first_divergence is not None
    assert found.first_divergence.name == "aten::roll"
    assert any("not equal, by how much is not known" in finding.message for finding in found.findings)


def test_hashes_of_other_data_end_the_search(tmp_path: Path) -> None:
    mine, other = recorded(tmp_path / "a", "hash"), recorded(tmp_path / "b", "hash", seed=1)
    assert compare(mine, other).status == "incomparable"
