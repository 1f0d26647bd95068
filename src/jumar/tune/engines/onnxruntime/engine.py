"""ONNX Runtime, on its CPU provider."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jumar.operators import base_name
from jumar.tune.engines.base import Engine, GraphFunction, Precision, Settings, Site
from jumar.tune.engines.shared.refusals import first_refusal, installed_version, not_here
from jumar.tune.graph import Graph
from jumar.tune.model.machine import Machine

POOLS = frozenset({"onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino"})
"""Distributions that bring the module."""
CONVOLUTIONS = frozenset({"conv1d", "conv2d", "conv3d", "convolution"})


class OnnxRuntime(Engine):
    """Settings, each of which may be left out:

    - `optimization`: `all` (default), with blocked layouts for convolutions; `extended`, without them; `basic`;
    - `spinning`: False: threads sleep between calls instead of waiting busily, for the sake of other engines;
    - `memory_pattern`: False: memory is not planned ahead as one block.

    The model file borrows its weights from `Site.constants`; loading optimises the graph again and compiles nothing.
    """

    name = "onnxruntime"

    def unavailable(self, machine: Machine) -> str:
        """Say what to install, or that the device is not the CPU."""
        return not_here("ONNX Runtime", ("onnxruntime", "onnx"), machine)

    def version(self) -> str:
        """Return the package's."""
        return installed_version(*sorted(POOLS))

    def unsupported(self, graph: Graph) -> str:
        """Name the first operator or dtype that cannot be written as ONNX."""
        return first_refusal(graph)

    def settings(self, graph: Graph, machine: Machine, precision: Precision = "fp32") -> Sequence[Settings]:
        """Offer what differs for this graph. A lower precision is written into the graph, not set here."""
        if precision != "fp32":
            return []
        found: list[Settings] = [{}]
        if any(base_name(node.operator) in CONVOLUTIONS for node in graph.nodes):
            found.append({"optimization": "extended"})
        if machine.num_threads > 1:
            found.append({"spinning": False})
        return found

    def build(self, site: Site, settings: Settings) -> GraphFunction:
        """Write the graph as ONNX and open a session. Raises TuneError for what cannot be written or run."""
        from jumar.tune.engines.onnx.model import save, to_onnx
        from jumar.tune.engines.shared.borders import inside_constants, with_borders
        from jumar.tune.engines.shared.cut import cut

        made = cut(site.graph)
        if not made.inside.nodes:
            return with_borders(site, made, None)
        constants = inside_constants(site, made)
        save(to_onnx(made.inside, constants), constants, site.folder)
        return self.load(site, settings)

    def load(self, site: Site, settings: Settings) -> GraphFunction:
        """Open a session on the file that `build` left."""
        from jumar.tune.engines.onnxruntime.session import opened
        from jumar.tune.engines.shared.borders import guarded, inside_constants, with_borders
        from jumar.tune.engines.shared.cut import cut

        made = cut(site.graph)
        if not made.inside.nodes:
            return with_borders(site, made, None)
        given: dict[str, Any] = dict(settings)
        run = opened(site, inside_constants(site, made), given, made.inside)
        return guarded(site, with_borders(site, made, run), only_tables=True)
