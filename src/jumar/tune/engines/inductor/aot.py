"""TorchInductor ahead of time: a library with a C++ wrapper, which another process loads in milliseconds."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Sequence
from typing import Any

import torch

from jumar.base.outside.archives import check_zip
from jumar.tune.engines.base import GraphFunction, Settings, Site
from jumar.tune.engines.eager import MKL
from jumar.tune.engines.shared.borders import Inside, inside_constants, with_borders, with_weights
from jumar.tune.engines.shared.channels import channels_last, converted
from jumar.tune.engines.shared.cut import Cut, cut
from jumar.tune.graph import Graph
from jumar.tune.graph.fx import annotated, to_fx
from jumar.tune.model.errors import TuneError

PACKAGE = "inductor.pt2"


class Whole(torch.nn.Module):
    """What `torch.export` takes: a module that is no fx graph itself."""

    def __init__(self, graph: torch.fx.GraphModule) -> None:
        super().__init__()
        self.graph_module = graph

    def forward(self, *inputs: torch.Tensor) -> tuple[Any, ...]:
        """Run the graph."""
        outputs: tuple[Any, ...] = self.graph_module(*inputs)
        return outputs


def built(site: Site, settings: Settings) -> GraphFunction:
    """Compile the graph into the site's folder and load it from there. Raises TuneError as `call_mkl` and `loaded`."""
    from torch._inductor import aoti_compile_and_package

    made = cut(site.graph)
    if not made.inside.nodes:
        return with_borders(site, made, None)
    constants = inside_constants(site, made)
    if settings.get("layout"):
        graph, constants = channels_last(made.inside), converted(constants)
    else:
        graph = made.inside
    if settings.get("products") == MKL:
        from jumar.tune.engines.shared.prepack import call_mkl

        module = with_weights(annotated(graph), graph, constants)
        call_mkl(module)
    else:
        module = with_weights(to_fx(graph), graph, constants)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's exporter uses what PyTorch deprecates
        program = torch.export.export(Whole(module), tuple(_example(site, made)), strict=False)
        aoti_compile_and_package(program, package_path=str(site.folder / PACKAGE))
    return loaded(site, settings)


def loaded(site: Site, settings: Settings) -> GraphFunction:
    """Return the function of what `built` left. Raises TuneError when it left nothing."""
    made = cut(site.graph)
    if not made.inside.nodes:
        return with_borders(site, made, None)
    path = site.folder / PACKAGE
    if not path.is_file():
        raise TuneError(f"{path} is missing, so that nothing can be loaded; tune again.")
    if settings.get("products") == MKL:
        import jumar.tune.engines.shared.prepack  # noqa: F401 - defines the operator that the library calls
    try:
        check_zip(path)  # PyTorch unpacks it and looks at no name
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        raise TuneError(f"{path} cannot be unpacked ({error}); tune again.") from error
    return with_borders(site, made, _apart(made.inside, _runner(str(path))))


def _apart(graph: Graph, run: Inside) -> Inside:
    """Return `run` with outputs in memory of their own: with frozen weights, equal operators are computed once."""
    repeated = _repeated(graph)
    if not repeated:
        return run

    def call(inputs: list[torch.Tensor]) -> Sequence[torch.Tensor]:
        return [output.clone() if place in repeated else output for place, output in enumerate(run(inputs))]

    return call


def _repeated(graph: Graph) -> set[int]:
    """Return the places of the outputs that are computed as an earlier one is."""
    first: dict[str, int] = {}
    same = list(range(len(graph.inputs)))
    for node in graph.nodes:
        same.append(first.setdefault(repr(node.renumbered(same.__getitem__)), len(same)))
    values = [same[value] for value in graph.outputs if value is not None]
    return {place for place, value in enumerate(values) if value in values[:place]}


def _runner(path: str) -> Inside:
    """Return the library's function. One runner: calls of one function do not overlap.

    The loader itself is used, not `torch._inductor.aoti_load_package` around it: that imports the compiler, asks g++
    for its version, and checks and flattens inputs that are tensors, in order, by construction.
    """
    loader: Any = torch._C._aoti.AOTIModelPackageLoader(path, "model", False, 1, -1)
    run: Inside = loader.run
    return run


def _example(site: Site, made: Cut) -> list[torch.Tensor]:
    """Return the inputs of `made.inside`: what the borders hand in."""
    variables = dict(zip(site.graph.variables, site.example, strict=True))
    given = [
        (variables[source], order)
        for source, order in zip(made.sources, made.orders, strict=True)
        if source in variables
    ]
    return [(tensor if order is None else tensor.permute(order)).contiguous() for tensor, order in given]
