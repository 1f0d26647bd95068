"""Small graphs, and engines for the tests of plans: one honest, one that lays its outputs over each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from jumar.tune.engines.base import Engine, Site
from jumar.tune.graph import Graph
from jumar.tune.graph.fx import from_fx, to_fx
from jumar.tune.plan import Plan, Region


class Plain(Engine):
    """Runs the graph in eager mode; leaves a file behind, and notes how it was built."""

    name = "plain"

    def version(self) -> str:
        return "1"

    def settings(self, graph, machine, precision="fp32"):
        return [{}]

    def build(self, site, settings):
        assert not any(site.folder.iterdir()), "a folder of its own"
        (site.folder / "built").write_text(f"{site.num_threads} {torch.get_num_threads()}")
        return eager(site)

    def load(self, site, settings):
        (site.folder / "built").read_text()
        return eager(site)


class Reusing(Plain):
    """Every call writes into the memory of the last one."""

    name = "reusing"

    def build(self, site, settings):
        function, kept = eager(site), []

        def call(*tensors):
            made = function(*tensors)
            if not kept:
                kept.extend(tensor.clone() for tensor in made)
            return tuple(old.copy_(new) for old, new in zip(kept, made, strict=True))

        return call


def eager(site: Site):
    module = to_fx(site.graph)
    constants = dict(site.constants)

    def call(*tensors):
        variables = iter(tensors)
        values = [
            constants[place] if spec.constant else next(variables) for place, spec in enumerate(site.graph.inputs)
        ]
        return tuple(module(*values))

    return call


ENGINES = (Plain(), Reusing())


def exported(model: torch.nn.Module, *example: torch.Tensor) -> tuple[Graph, dict[int, torch.Tensor]]:
    """Return the graph of a model in inference, and its weights."""
    with torch.no_grad():
        program = torch.export.export(model.eval(), example)
    held = {**dict(model.named_parameters()), **dict(model.named_buffers()), **program.constants}
    names = [spec.target for spec in program.graph_signature.input_specs]
    constants = [place for place, name in enumerate(names) if name is not None]
    graph, further = from_fx(program.graph_module, constants)
    return graph, {place: held[names[place]].detach() for place in constants} | further


def site_of(folder: Path, graph: Graph, constants, example: Sequence[torch.Tensor], num_threads: int = 1) -> Site:
    folder.mkdir(parents=True, exist_ok=True)
    return Site(graph=graph, constants=constants, example=list(example), folder=folder, num_threads=num_threads)


def whole(**rest) -> Plan:
    return Plan(regions=[Region(nodes=(), engine="plain", version="1")], **rest)


def in_two(graph: Graph, after: int, engines=("plain", "plain"), **rest) -> Plan:
    """The first `after` nodes to one engine, the others to another."""
    first = len(graph.inputs)
    nodes = range(first, first + len(graph.nodes))
    return Plan(
        regions=[Region(nodes=nodes[:after], engine=engines[0]), Region(nodes=nodes[after:], engine=engines[1])], **rest
    )


class Convolutions(torch.nn.Module):
    """A residual block, a channel shuffle with written sizes, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.second = torch.nn.Conv2d(8, 8, 3, padding=1)
        self.last = torch.nn.Linear(8, 5)

    def forward(self, image):
        x = self.first(image).relu()
        x = (self.second(x) + x).relu()
        rows, channels, height, width = x.shape
        x = x.view(rows, 2, channels // 2, height, width).transpose(1, 2).reshape(rows, channels, height, width)
        return self.last(x.mean((2, 3)))


class Tokens(torch.nn.Module):
    """A token that is expanded over the batch, heads in a view, attention."""

    def __init__(self) -> None:
        super().__init__()
        self.token = torch.nn.Parameter(torch.randn(1, 1, 16))
        self.project = torch.nn.Linear(16, 48)

    def forward(self, words):
        x = torch.cat([self.token.expand(words.shape[0], -1, -1), words], 1)
        rows, length, width = x.shape
        q, k, v = self.project(x).view(rows, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return y.transpose(1, 2).reshape(rows, length, width)


class Centred(torch.nn.Module):
    """Rows depend on each other by a value that has none."""

    def forward(self, x):
        return x - x.mean(0, keepdim=True)


class Shared(torch.nn.Module):
    """Rows depend on each other, which no shape shows."""

    def forward(self, x):
        return x.softmax(0)
