"""PyTorch itself: ATen and oneDNN, one operator after the other."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version

from jumar.operators import base_name, has
from jumar.tune.engines.base import Engine, GraphFunction, Precision, Settings, Site
from jumar.tune.graph import Graph
from jumar.tune.model.machine import Machine

CHANNELS_LAST = "channels_last"

PACKED = frozenset({"conv2d", "conv3d", "linear"})
"""Operators whose weights oneDNN packs."""
MKL = "mkl"


def has_channels(graph: Graph) -> bool:
    """Tell whether an operator of a graph has kernels for channels stored last."""
    return any(has(node.operator, "channels_last") for node in graph.nodes)


def mkl_may_pay(graph: Graph) -> bool:
    """Tell whether MKL's packed weights are worth a trial: where linear layers are what the graph mostly does."""
    names = Counter(base_name(node.operator) for node in graph.nodes)
    return names["linear"] > names["conv2d"] + names["conv3d"] and platform.machine() in {"x86_64", "AMD64"}


def step_settings(graph: Graph) -> list[Settings]:
    """Return the forms of a training step (`jumar.tune.engines.training.steps`): as it stands, and the layouts."""
    if not has_channels(graph):
        return [{}]
    return [{}, {"layout": CHANNELS_LAST, "products": True}, {"layout": CHANNELS_LAST}]


class Eager(Engine):
    """Nothing is compiled: a build takes milliseconds.

    - `{}`: the operators as they stand;
    - `{"prepack": True}`: weights of convolutions and linear layers in oneDNN's own blocks, with a normalisation
      or activation behind a convolution computed in its kernel;
    - `{"prepack": True, "products": "mkl"}`: the same, with the weights of linear layers as MKL packs them;
    - `{"layout": "channels_last"}`: images, volumes and filters with their channels last, from end to end.
    """

    name = "eager"
    devices = frozenset({"cpu", "npu"})
    takes_steps = True

    def version(self) -> str:
        """Return PyTorch's."""
        return version("torch")

    def settings(self, graph: Graph, machine: Machine, precision: Precision = "fp32") -> Sequence[Settings]:
        """Offer other layouts where operators have them; a lower precision is written into the graph, not set here."""
        if precision != "fp32":
            return []
        names = {base_name(node.operator) for node in graph.nodes}
        found: list[Settings] = step_settings(graph) if graph.gradients else [{}]
        if graph.gradients:
            if machine.device == "cpu" and machine.compiler and "batch_norm" in names and len(found) > 1:
                found.insert(1, {**found[1], "norms": True})
            return found
        if has_channels(graph):
            found.append({"layout": CHANNELS_LAST})
        if machine.device == "cpu" and names & PACKED and graph.constants:
            found.append({"prepack": True})
            if mkl_may_pay(graph):
                found.append({"prepack": True, "products": MKL})
        return found

    def build(self, site: Site, settings: Settings) -> GraphFunction:
        """Return a function that runs the operators in order. Raises TuneError where nothing can be packed."""
        from jumar.tune.engines.shared.borders import bound

        if site.graph.gradients:
            from jumar.tune.engines.training.steps import eager_step

            return eager_step(site, settings)
        if settings.get("layout") == CHANNELS_LAST:
            return _channels_last(site)
        if settings.get("prepack"):
            from jumar.tune.engines.shared.prepack import packed

            return packed(site, by_mkl=settings.get("products") == MKL)
        return bound(site.graph, site.constants)

    def load(self, site: Site, settings: Settings) -> GraphFunction:
        """As `build`: nothing is compiled."""
        return self.build(site, settings)


def _channels_last(site: Site) -> GraphFunction:
    from jumar.tune.engines.shared.borders import bound, inside_constants, with_borders
    from jumar.tune.engines.shared.channels import channels_last, converted
    from jumar.tune.engines.shared.cut import cut

    made = cut(site.graph)
    run = bound(channels_last(made.inside), converted(inside_constants(site, made)))
    return with_borders(site, made, lambda inputs: run(*inputs))
