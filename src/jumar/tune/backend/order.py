"""One order for a graph's inputs: that in which the graph first needs them.

TorchDynamo hands over the inputs in the order in which it met them, `torch.export` the weights first. Both must lead
to the same key, so inputs are numbered by their first use, and those that nothing uses are no part of the graph.
"""

from __future__ import annotations

from jumar.tune.graph import Graph, Reference


def in_order_of_use(graph: Graph) -> tuple[Graph, list[Reference]]:
    """Return the graph with its inputs in the order of their first use, and the old place of each of them."""
    num_inputs = len(graph.inputs)
    used = [value for node in graph.nodes for value in node.references()]
    used += [value for value in graph.outputs if value is not None]
    kept = [value for value in dict.fromkeys(used) if value < num_inputs]
    return graph.with_inputs(kept), kept
