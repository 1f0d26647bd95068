"""The engine `kernels`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jumar.base.native import compiler
from jumar.tune.engines.base import Engine, GraphFunction, Precision, Settings, Site
from jumar.tune.engines.kernels.library import build_library, source_digest, widths
from jumar.tune.engines.kernels.recognise.recognise import recognise
from jumar.tune.engines.kernels.recognise.steps import Aten, Conv, Gelu
from jumar.tune.graph import Graph
from jumar.tune.model.errors import TuneError
from jumar.tune.model.machine import Machine


class Kernels(Engine):
    """Convolution networks in float32, whole, with Jumar's own kernels."""

    name = "kernels"

    def unavailable(self, machine: Machine) -> str:
        """Say that it needs a C++ compiler."""
        return "" if compiler() else "the kernels need a C++ compiler and none was found; install g++ or set CXX."

    def version(self) -> str:
        """Return a digest of the source, C++ and Python: tuned plans hold for these kernels only."""
        return source_digest()

    def unsupported(self, graph: Graph) -> str:
        """Say why not: no convolution, or less than half of the operators."""
        if graph.effects:
            return "the graph writes to its inputs, which the kernels do not."
        if not graph.variables or any(graph.inputs[place].dtype != "float32" for place in graph.variables):
            return "the kernels take float32 inputs only."
        steps = recognise(graph).steps
        if not any(isinstance(step, Conv) for step in steps) and not all(isinstance(step, Gelu) for step in steps):
            return "the graph has no convolution or linear layer with constant weights, which is what the kernels are."
        num_aten = sum(isinstance(step, Aten) for step in steps)
        if 2 * num_aten > len(steps):
            return f"the kernels know {len(steps) - num_aten} of {len(steps)} steps of the graph, less than half."
        return ""

    def settings(self, graph: Graph, machine: Machine, precision: Precision = "fp32") -> Sequence[Settings]:
        """Offer direct convolutions and Winograd's algorithm, and for batches the images one by one."""
        if precision != "fp32":
            return []
        steps = recognise(graph).steps
        tiles = (0, 4, 2) if any(isinstance(step, Conv) and step.is_square3 for step in steps) else (0,)
        images = (0, 1) if _num_images(graph, steps) > 1 else (0,)
        return [{"vector": widths()[0], "winograd": tile, "images": one} for tile in tiles for one in images]

    def build(self, site: Site, settings: Settings) -> GraphFunction:
        """Compile the library, lay out the graph, pack its weights, and try widths of panels for each product.

        Raises TuneError where images should go one by one and cannot: settings may come from a graph of other sizes.
        """
        from jumar.tune.engines.kernels.library import Library
        from jumar.tune.engines.kernels.lowering.assemble import assemble
        from jumar.tune.engines.kernels.lowering.lower import Choices
        from jumar.tune.engines.kernels.search import search

        images = int(str(settings.get("images", 0)))
        if images and not _num_images(site.graph, recognise(site.graph).steps):
            raise TuneError("the kernels cannot compute the images of this batch one by one; leave the batch whole.")
        build_library(site.folder, int(str(settings["vector"])))
        library = Library(site.folder)
        choices = Choices(
            lanes=library.lanes,
            num_threads=1 if images else site.num_threads,
            winograd=int(str(settings.get("winograd", 0))),
            images=images,
            fuse=bool(settings.get("fuse", True)),
        )
        program, matrices = assemble(site.graph, site.constants, choices)
        search(program, library, matrices, choices.num_threads, panel=int(str(settings.get("panel", 0))))
        program.save(site.folder)
        return _runner(program, library, site, settings)

    def load(self, site: Site, settings: Settings) -> GraphFunction:
        """Read what `build` left."""
        from jumar.tune.engines.kernels.library import Library
        from jumar.tune.engines.kernels.program import Program

        try:
            program = Program.load(site.folder)
        except (OSError, ValueError, KeyError) as error:
            raise TuneError(f"{site.folder} holds no program of the kernels ({error}); tune again.") from error
        return _runner(program, Library(site.folder), site, settings)


def _runner(program: Any, library: Any, site: Site, settings: Settings) -> GraphFunction:
    from jumar.tune.engines.kernels.runner import Runner
    from jumar.tune.engines.shared.sessions import one_a_call

    graph, num_threads, reuse = site.graph, site.num_threads, bool(settings.get("reuse", False))
    first = Runner(program, library, graph, site.constants, num_threads, reuse=reuse)
    return one_a_call(first, lambda: Runner(program, library, graph, first.constants, num_threads, reuse=reuse))


def _num_images(graph: Graph, steps: Sequence[Any]) -> int:
    """Return the images of a batch that the graph computes each by itself, with our kernels only; 0 where it does not.

    A weight that is read as images are is none of the batch: each image would read it from another place on.
    """
    batches = {graph.inputs[place].shape[:1] for place in graph.variables}
    specs = [graph.spec_of(value) for value in graph.outputs if value is not None]
    batches |= {() if spec is None else spec.shape[:1] for spec in specs}
    read = {value for step in steps for value in step.inputs}
    if any(isinstance(step, Aten) for step in steps) or not read.isdisjoint(graph.constants):
        return 0
    return sum(batches.pop()) if len(batches) == 1 else 0
