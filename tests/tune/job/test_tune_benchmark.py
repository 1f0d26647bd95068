"""The benchmark of tuning: rows are kept one by one, tables come from what was measured, ratios have their sides."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(scope="module", autouse=True)
def importable():
    before = list(sys.path)
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path[:] = before
    for name in ("tune", "tune_table", "tune_models", "tune_contenders"):
        sys.modules.pop(name, None)


def row(name: str, quiet: bool = True, **medians: float) -> dict:
    jumar = medians["jumar"]
    engines = {
        engine: {
            "median_us": us, "low_us": us, "high_us": us,
            "ratio": us / jumar, "ratio_low": us / jumar - 0.1, "ratio_high": us / jumar + 0.1,
        }
        for engine, us in medians.items()
    }  # fmt: skip
    return {
        "row": name, "engines": engines, "quiet": quiet, "date": "2026-11-21 22:00", "budget": "2m",
        "machine": {"model": "cpu", "capability": "AVX512"}, "versions": {"torch": "2.13"},
    }  # fmt: skip


def test_the_best_other_engine_is_one_of_the_models_own_precision():
    from tune_table import best_other, table

    one = row("resnet50:1:1:0.01", eager=100_000.0, openvino=70_000.0, **{"openvino-bf16": 30_000.0}, jumar=35_000.0)
    assert best_other(one)["ratio"] == 2.0
    assert "| 100 | 70 | 30 | 35 | 2.00 (1.90 to 2.10) | – |" in table([one])


def test_the_summary_is_the_geometric_mean_and_the_worst_row_of_each_kind():
    from tune_table import summary

    rows = [row("gpt:1:1", eager=400.0, jumar=100.0), row("gpt:8:1", eager=100.0, jumar=100.0)]
    rows.append(row("gpt-train:8:1", eager=110.0, jumar=100.0))
    assert summary(rows) == [
        "inference at the model's precision: 2 rows, best other / Jumar 2.000 in the geometric mean, 1.000 at worst",
        "training steps: 1 rows, best other / Jumar 1.100 in the geometric mean, 1.100 at worst",
    ]


def test_an_engine_that_could_not_take_a_model_is_a_dash_and_a_noisy_row_is_marked():
    from tune_table import table

    one = row("gpt:1:1", quiet=False, eager=400.0, jumar=100.0)
    one["engines"]["tvm"] = {"error": "ModuleNotFoundError"}
    assert "| gpt:1:1 * | 0.4 | – | 0.1 |" in table([one])
    assert "other programs used the machine" in table([one])


def test_a_guide_gets_the_table_between_its_marks_and_keeps_the_rest():
    from tune_table import END, START, guide_with

    text = guide_with(f"before\n{START}\nold\n{END}\nafter\n", [row("gpt:1:1", eager=400.0, jumar=100.0)])
    assert text.startswith(f"before\n{START}\nMedians in ms on cpu (AVX512), torch 2.13")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    other = row("gpt:1:1", eager=300.0, jumar=100.0) | {"machine": {"model": "other", "capability": "AVX2"}}
    both = guide_with(text, [row("gpt:1:1", eager=400.0, jumar=100.0), other])
    assert both.count("| gpt:1:1 |") == both.count("Medians in ms on") == 2
    with pytest.raises(ValueError, match="must have the marks"):
        guide_with("nothing", [])


def test_rows_are_added_one_by_one_in_place_of_older_ones(tmp_path):
    from tune import Row, add, read

    out = tmp_path / "tune.json"
    here, there = ({"model": model, "capability": "AVX2"} for model in ("here", "there"))
    add(out, {"row": "a", "n": 1, "machine": here})
    add(out, {"row": "b", "n": 2, "machine": here})
    add(out, {"row": "a", "n": 3, "machine": there})
    add(out, {"row": "a", "n": 4, "machine": here})
    assert [(one["row"], one["n"]) for one in read(out)] == [("b", 2), ("a", 3), ("a", 4)]
    assert json.loads(out.read_text())
    assert Row.parse("shufflenet:8:2:1e-2").name == "shufflenet:8:2:0.01"
    with pytest.raises(SystemExit, match="MODEL:BATCH:THREADS"):
        Row.parse("shufflenet:8")


def test_statistics_of_batch_norm_do_not_fold_away_and_models_are_the_same_in_every_process():
    import tune_models

    one, inputs = tune_models.make("shufflenet", 1)
    two, same = tune_models.make("shufflenet", 1)
    norms = [module for module in one.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    assert all(bool((norm.running_var != 1).any()) and bool((norm.running_mean != 0).any()) for norm in norms)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert torch.equal(inputs[0], same[0])
