"""A plan as a function of a graph's variable inputs, built here or loaded from what a build left in its folder.

    lowering → layout → pieces of the batch → regions → engines

and around all of it the number of threads and the memory policy, set when the function is entered and put back when
it is left. Below `site.folder` each engine has a folder of its own, `piece-4.0/region-2`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from jumar.base.process.threads import threads
from jumar.tune.engines.base import Engine, GraphFunction, Site
from jumar.tune.graph import Graph
from jumar.tune.graph.graph import Part
from jumar.tune.model.errors import TuneError
from jumar.tune.model.malloc import can_keep, give_back, kept
from jumar.tune.plan.batch import at_once, cut_batch, in_pieces, one_after_the_other, prove
from jumar.tune.plan.lowering.observe import lowered_site
from jumar.tune.plan.plan import Plan, Region
from jumar.tune.plan.respecialise import CHANNELS_LAST, in_layout


def build(plan: Plan, site: Site, engines: Sequence[Engine] | None = None) -> GraphFunction:
    """Return the function of `site.graph` under `plan`; engines compile.

    Raises TuneError for a plan that is not of this graph, an engine that is missing or of another version, and a
    batch that does not come apart; engines may raise anything.
    """
    return _Builder(plan, _by_name(engines), is_load=False).function(site)


def load(plan: Plan, site: Site, engines: Sequence[Engine] | None = None) -> GraphFunction:
    """Return what `build` returned, from the folder that it filled, without compiling. `site.example` may be empty.

    Raises TuneError as `build` does.
    """
    return _Builder(plan, _by_name(engines), is_load=True).function(site)


@dataclass(frozen=True, slots=True)
class _Builder:
    plan: Plan
    engines: Mapping[str, Engine]
    is_load: bool

    def function(self, site: Site) -> GraphFunction:
        plan = self.plan
        count = plan.num_threads or (1 if plan.streams > 1 else site.num_threads)
        if plan.memory not in {"default", "keep"}:
            raise TuneError(f"a plan's memory policy must be default or keep; got {plan.memory}. Tune the graph again.")
        if plan.memory == "keep" and not can_keep():
            raise TuneError("memory is kept with glibc only, which this process does not use; leave it at default.")
        with threads(count):
            made = self._laid_out(replace(lowered_site(site, plan.lowering), num_threads=count))
        return _under(made, count, keep=plan.memory == "keep")

    def _laid_out(self, site: Site) -> GraphFunction:
        if self.plan.layout == "default":
            return self._in_pieces(site)
        if self.plan.layout != CHANNELS_LAST:
            raise TuneError(f"a plan's layout must be default or {CHANNELS_LAST}; got {self.plan.layout}. Tune again.")
        return in_layout(site, self._in_pieces)

    def _in_pieces(self, site: Site) -> GraphFunction:
        sizes = self.plan.batch
        if not sizes:
            return self._regions(site)
        cut = cut_batch(site.graph, sizes)
        pieces = {size: cut.piece(size) for size in dict.fromkeys(sizes)}
        if not self.is_load:
            prove(cut, pieces, sizes, site.constants, site.example)
        made: dict[tuple[int, int], GraphFunction] = {}
        for place, size in enumerate(sizes):
            stream = place % self.plan.streams
            if (size, stream) not in made:
                example = cut.rows(site.example, sum(sizes[:place]), size) if site.example else []
                folder = _folder(site.folder / f"piece-{size}.{stream}")
                inner = replace(site, graph=pieces[size], example=example, folder=folder)
                made[size, stream] = self._fitted(site.graph, pieces[size])._regions(inner)
        functions = [made[size, place % self.plan.streams] for place, size in enumerate(sizes)]
        run = at_once(self.plan.streams, site.num_threads) if self.plan.streams > 1 else one_after_the_other
        return in_pieces(cut, sizes, run, functions)

    def _fitted(self, graph: Graph, piece: Graph) -> _Builder:
        """Return the builder of a piece's regions, with the settings that their engines have for its sizes."""
        regions = tuple(
            replace(region, settings=engine.fitted(region.settings, graph, piece))
            if (engine := self.engines.get(region.engine)) is not None
            else region
            for region in self.plan.regions
        )
        return replace(self, plan=replace(self.plan, regions=regions))

    def _regions(self, site: Site) -> GraphFunction:
        regions = self.plan.regions
        if len(regions) == 1 and not regions[0].nodes:
            return self._engine(regions[0], site)
        graph = site.graph
        parts = parts_of(graph, [region.nodes for region in regions])
        steps = steps_of(graph, parts)
        values = dict(zip(graph.variables, site.example, strict=True)) if site.example else {}
        functions: list[GraphFunction] = []
        for place, (region, part, step) in enumerate(zip(regions, parts, steps, strict=True)):
            constants = {
                number: site.constants[value]
                for number, value in enumerate(part.taken)
                if part.graph.inputs[number].constant
            }
            inner = Site(
                graph=part.graph, constants=constants, example=[values[value] for value in step.takes if values],
                folder=_folder(site.folder / f"region-{place}"), num_threads=site.num_threads,
            )  # fmt: skip
            functions.append(self._engine(region, inner))
            if values:
                values.update(_outputs(step.gives, functions[-1], inner.example))
        return stitched(graph, steps, functions, site.constants)

    def _engine(self, region: Region, site: Site) -> GraphFunction:
        engine = self.engines.get(region.engine)
        if engine is None:
            raise TuneError(f"the plan needs the engine {region.engine}, which is not here; install it, or tune again.")
        if region.version and region.version != engine.version():
            raise TuneError(
                f"the plan was measured with {region.engine} {region.version} and here is {engine.version()}; "
                "tune the graph again."
            )
        return engine.load(site, region.settings) if self.is_load else engine.build(site, region.settings)


def _outputs(gives: Sequence[int], function: GraphFunction, example: Sequence[torch.Tensor]) -> dict[int, torch.Tensor]:
    """Return the values that a region gives for its example: the next one's example, in memory of their own."""
    with torch.no_grad():
        made = function(*example)
    return {value: tensor.clone() for value, tensor in zip(gives, made, strict=True)}


def _under(function: GraphFunction, count: int, *, keep: bool) -> GraphFunction:
    """Return `function` with its number of threads, and with freed memory kept when `keep` is set."""

    def call(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if not keep:
            give_back()
        before = torch.get_num_threads()
        if before == count:
            return function(*tensors)
        torch.set_num_threads(count)
        try:
            return function(*tensors)
        finally:
            torch.set_num_threads(before)

    def keeping(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with kept():
            return call(*tensors)

    return keeping if keep else call


def _by_name(engines: Sequence[Engine] | None) -> dict[str, Engine]:
    from jumar.tune.plan.engines import ENGINES

    return {engine.name: engine for engine in (ENGINES if engines is None else engines)}


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


@dataclass(frozen=True, slots=True)
class Step:
    """A region's part in a call: values by their numbers in the whole graph."""

    takes: Sequence[int]
    gives: Sequence[int]
    frees: Sequence[int]


def parts_of(graph: Graph, regions: Sequence[Sequence[int]]) -> list[Part]:
    """Return the regions as graphs. Raises TuneError when they are not all nodes, each once, in an order that runs."""
    if graph.effects:
        raise TuneError("the graph writes to its inputs, so that it is computed as a whole; give it to one engine.")
    nodes = sorted(node for region in regions for node in region)
    if nodes != list(range(len(graph.inputs), len(graph.inputs) + len(graph.nodes))):
        raise TuneError("the regions of a plan must hold every node of its graph once; tune the graph again.")
    try:
        parts = [graph.part(region) for region in regions]
    except ValueError as error:
        raise TuneError(f"the graph cannot be cut there: {error}.") from error
    known = set(range(len(graph.inputs)))
    for part in parts:
        if not known.issuperset(part.taken):
            raise TuneError("a region of the plan reads what comes after it; tune the graph again.")
        known.update(part.given)
    return parts


def steps_of(graph: Graph, parts: Sequence[Part]) -> list[Step]:
    """Return what each region takes (variable values only), gives and is the last to need."""
    needed = {value for value in graph.outputs if value is not None}
    steps: list[Step] = []
    for part in reversed(parts):
        takes = [value for value in part.taken if not _is_weight(graph, value)]
        fresh = [value for value in (*takes, *part.given) if value not in needed]
        steps.append(
            Step(takes=takes, gives=part.given, frees=[value for value in fresh if value >= len(graph.inputs)])
        )
        needed.update(takes)
    return steps[::-1]


def stitched(
    graph: Graph, steps: Sequence[Step], functions: Sequence[GraphFunction], constants: Mapping[int, torch.Tensor]
) -> GraphFunction:
    """Return the whole graph as a function of its variable inputs."""
    variables = graph.variables
    weights = {value: constants[value] for value in graph.outputs if value is not None and _is_weight(graph, value)}
    calls = list(zip(steps, functions, strict=True))

    def call(*tensors: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        values = dict(zip(variables, tensors, strict=True)) | weights
        for step, function in calls:
            given = function(*[values[value] for value in step.takes])
            values.update(zip(step.gives, given, strict=True))
            for value in step.frees:
                del values[value]
        return tuple(None if value is None else values[value] for value in graph.outputs)

    return call


def _is_weight(graph: Graph, value: int) -> bool:
    return value < len(graph.inputs) and graph.inputs[value].constant
