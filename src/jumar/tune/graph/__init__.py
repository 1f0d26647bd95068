"""Graphs of operators: what a model computes, as plain data with a canonical key."""

from __future__ import annotations

from jumar.tune.graph.graph import Graph, Node, Reference, references

__all__ = ["Graph", "Node", "Reference", "references"]
