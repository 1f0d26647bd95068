"""OpenVINO, on its CPU plugin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jumar.tune.engines.base import Engine, GraphFunction, Precision, Settings, Site
from jumar.tune.engines.shared.lookups import computed_look_up
from jumar.tune.engines.shared.refusals import (
    first_integer_refusal,
    first_number_refusal,
    first_refusal,
    installed_version,
    not_here,
)
from jumar.tune.graph import Graph
from jumar.tune.model.machine import Machine

DTYPES = frozenset({"float32", "float16", "bfloat16", "int64", "int32", "uint8", "int8", "bool"})
HINTS = {"fp32": "f32", "bf16": "bf16", "fp16": "f16", "int8": "f32"}
"""What the plugin is told for each precision. Without being told it takes bf16 where the processor has it."""


class OpenVino(Engine):
    """Settings, each of which may be left out:

    - `precision`: `fp32` (default, pinned), `bf16`, `fp16`: what the plugin computes in, wherever it can;
    - `pinning`: True: its threads stay on their cores.

    The compiled model is left in the site's folder and imported from there. The plugin computes integers in 32 bits:
    graphs whose integers would not fit are refused, and a call whose inputs do not fit is computed by PyTorch.
    """

    name = "openvino"

    def unavailable(self, machine: Machine) -> str:
        """Say what to install, or that the device is not the CPU."""
        return not_here("OpenVINO", ("openvino", "onnx"), machine)

    def version(self) -> str:
        """Return the package's."""
        return installed_version("openvino")

    def unsupported(self, graph: Graph) -> str:
        """Name the first operator or dtype that it does not compute as PyTorch does."""
        return (
            first_refusal(graph, DTYPES)
            or first_integer_refusal(graph)
            or first_number_refusal(graph)
            or computed_look_up(graph)
        )

    def settings(self, graph: Graph, machine: Machine, precision: Precision = "fp32") -> Sequence[Settings]:
        """Offer the asked precision; int8 is written into the graph, not set here."""
        if precision in {"bf16", "fp16"}:
            return [{"precision": precision}]
        found: list[Settings] = [{}]
        if machine.num_threads > 1:
            found.append({"pinning": True})
        return found if precision == "fp32" else []

    def build(self, site: Site, settings: Settings) -> GraphFunction:
        """Write the graph as ONNX and compile it. Raises TuneError for what cannot be written or compiled."""
        from jumar.tune.engines.openvino.model import compiled
        from jumar.tune.engines.shared.borders import inside_constants
        from jumar.tune.engines.shared.cut import cut

        made = cut(site.graph)
        if made.inside.nodes:
            compiled(made.inside, inside_constants(site, made), site.folder, _config(site, settings))
        return self.load(site, settings)

    def load(self, site: Site, settings: Settings) -> GraphFunction:
        """Import the compiled model that `build` left."""
        from jumar.tune.engines.shared.borders import with_borders
        from jumar.tune.engines.shared.cut import cut

        made = cut(site.graph)
        if not made.inside.nodes:
            return with_borders(site, made, None)
        from jumar.tune.engines.openvino.model import imported
        from jumar.tune.engines.shared.borders import guarded

        run = imported(site.folder, made.inside, _config(site, settings))
        return guarded(site, with_borders(site, made, run))


def _config(site: Site, settings: Settings) -> dict[str, Any]:
    return {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": site.num_threads,
        "INFERENCE_PRECISION_HINT": HINTS[str(settings.get("precision", "fp32"))],
        "ENABLE_CPU_PINNING": bool(settings.get("pinning", False)),
    }
