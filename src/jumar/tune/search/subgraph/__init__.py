"""Subgraph tuning: a whole graph given to the engine, or the engines, that compute it fastest.

baseline → engines → variants → duels → regions → measured gate → knowledge bank
"""

from __future__ import annotations

from jumar.tune.search.subgraph.offers import Space
from jumar.tune.search.subgraph.outcome import GraphOutcome
from jumar.tune.search.subgraph.tune import graph_providers, tune_graph

__all__ = ["GraphOutcome", "Space", "graph_providers", "tune_graph"]
