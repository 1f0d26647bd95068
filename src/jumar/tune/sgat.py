"""The SGAT part of the vendor's result file: the model before and after, and each subgraph whose policy was written.

Times are in milliseconds. The improvement is (before − after) / after of the very numbers that are written, and is
cut after two decimals, not rounded, as the vendor's examples have it. A subgraph's key is the bank's: the first 64
bits of the graph's SHA-256, in decimal.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from jumar.tune.gate import improvement_percent

if TYPE_CHECKING:
    from jumar.tune.outcome import Counters, TuneResult
    from jumar.tune.subgraph.outcome import GraphOutcome


def sgat(result: TuneResult) -> dict[str, Any]:
    """Return the part. The model's times are absent until every subgraph has some."""
    part: dict[str, Any] = {}
    times = result.model_us()
    if times is not None:
        part |= model_times(*times)
    part["repo_modified_subgraphs"] = {
        f"{action}_repo_subgraphs": [_performance(graph) for graph in result.graphs if graph.action == action]
        for action in ("add", "update")
    }
    part["repo_summary"] = summary(result.counters())
    return part


def model_times(before_us: float, after_us: float) -> dict[str, Any]:
    """Return the three fields of a model before and after, which both parts of the file have."""
    before, after = _ms(before_us), _ms(after_us)
    return {
        "model_baseline_performance(ms)": before,
        "model_performance_improvement": _improvement(before, after),
        "model_result_performance(ms)": after,
    }


def summary(counters: Counters) -> dict[str, int]:
    """Return the vendor's counters: hit = reserved + update, total = hit + add + unsatisfied."""
    return {
        "repo_add_num": counters.add,
        "repo_hit_num": counters.hit,
        "repo_reserved_num": counters.reserved,
        "repo_unsatisfied_num": counters.unsatisfied,
        "repo_update_num": counters.update,
        "total_num": counters.total,
    }


def _performance(graph: GraphOutcome) -> dict[str, Any]:
    assert graph.gain is not None, "a plan is written only with its measurement"
    before, after = _ms(graph.gain.before_us), _ms(graph.gain.after_us)
    return {
        "performance_after_tune(ms)": after,
        "performance_before_tune(ms)": before,
        "performance_improvement": _improvement(before, after),
        "repo_key": graph.repo_key,
    }


def _ms(time_us: float) -> float:
    return round(time_us / 1000, 6)


def _improvement(before: float, after: float) -> str:
    return f"{math.trunc(improvement_percent(before, after) * 100) / 100:.2f}%"
