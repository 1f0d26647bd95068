"""Training: the forward that TorchDynamo hands over, in the form that the bank has for its step.

What is looked up is the step (`jumar.tune.graph.steps`): forward and backward were measured together. What runs is
the user's own module in that form: buffers are written, gradients stop, and hooks see what they see without it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.nn import functional

from jumar import __version__
from jumar.base.files import write_text
from jumar.base.findings import Json
from jumar.tune.backend.capture import NotTunable, take
from jumar.tune.backend.compilation import Compilation, Compiled
from jumar.tune.engines.training.batch_norm import check_library
from jumar.tune.engines.training.step_forms import in_form, name_of, why_layout_stays
from jumar.tune.graph.graph import Graph, Reference
from jumar.tune.graph.steps import as_step
from jumar.tune.model.errors import TuneError
from jumar.tune.model.malloc import can_keep, keep_from_now_on
from jumar.tune.model.notes import tell
from jumar.tune.model.task import digest

if TYPE_CHECKING:
    from jumar.tune.plan import Plan

_STATISTICS = ("running_mean", "running_var")
_STOPPING = frozenset({"detach", "detach_", "_set_grad_enabled"})
_NAMES_OF_BATCH_NORM = ("input", *_STATISTICS)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenStep:
    """A step and the tensors of its forward, by place."""

    graph: Graph
    tensors: Mapping[Reference, torch.Tensor]
    keeps_layout: str
    """Why the module must not be computed in another layout, which the graph does not tell: it writes to nothing in
    place. Empty: it may be."""


def take_step(compilation: Compilation) -> TakenStep:
    """Return the training step of a module. Raises TuneError, which says why it is not tuned."""
    module = _without_statistics(compilation.module)
    stopping = sorted({name for node in module.graph.nodes if (name := name_of(node)) in _STOPPING})
    if stopping:
        raise NotTunable(f"it stops gradients ({stopping[0]})")
    taken = take(module, compilation.arguments, set(), may_draw=True)
    if taken.graph.effects:
        raise NotTunable("it writes to its inputs")
    wanted = [place for place, argument in taken.arguments.items() if compilation.arguments[argument].requires_grad]
    if not wanted:
        raise NotTunable("no gradient reaches its inputs")
    return TakenStep(
        graph=as_step(taken.graph, sorted(wanted)), tensors=taken.tensors,
        keeps_layout=why_layout_stays(compilation.module.graph),
    )  # fmt: skip


def applied(compilation: Compilation, plan: Plan) -> Compiled:
    """Return the module as the plan of its step says. Raises TuneError for a plan that is of no step."""
    (region, *others) = plan.regions
    if others or region.nodes or plan.batch or plan.num_threads or plan.streams > 1 or plan.lowering:
        raise TuneError(f"the plan ({plan}) is of no training step; tune again.")
    if region.engine not in {"eager", "inductor"}:
        raise TuneError(f"the plan's engine {region.engine} computes no gradients; tune again.")
    if plan.memory == "keep" and not can_keep():
        raise TuneError("memory is kept with glibc only, which this process does not use.")
    if region.settings.get("norms"):
        check_library()
    formed = replace(compilation, module=in_form(compilation.module, region.settings))
    compiled = formed.untuned() if region.engine == "inductor" else formed.module.forward
    if plan.memory == "keep":
        keep_from_now_on()
    return compiled


def source_digest(compilation: Compilation) -> str:
    """Return a digest of a module as TorchDynamo wrote it, which is quicker to have than its step's key.

    Equal modules with equal arguments have equal steps; the reverse does not hold.
    """
    described: list[Json] = [_described(value) for value in compilation.arguments]
    modules = compilation.module.modules()
    code: list[Json] = [module.code for module in modules if isinstance(module, fx.GraphModule)]
    # What a step computes, and whether it is tuned at all, depends on these as well, and the code tells neither.
    state: list[Json] = [bool(torch._C._is_any_autocast_enabled()), str(torch.get_default_dtype())]
    return digest([code, described, state, torch.__version__, __version__])[:40]


def _described(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(type(value))
    layout = value.stride() if value.layout is torch.strided else value.layout
    return f"{value.dtype} {tuple(value.shape)} {layout} {value.device} {value.requires_grad}"


def _without_statistics(module: fx.GraphModule) -> fx.GraphModule:
    """Return the module without what batch normalisation writes down for evaluation: no part of what is measured."""
    made = fx.Graph()
    made.output(made.graph_copy(module.graph, {}))
    made_module = fx.GraphModule(module, made)
    for node in made.nodes:
        if node.target is functional.batch_norm:
            _leave_statistics(node)
    for node in list(made.nodes):
        if name_of(node) == "add_" and not node.users and _is_counter(node.args[0]):
            made.erase_node(node)
    made_module.recompile()
    return made_module


def _leave_statistics(node: fx.Node) -> None:
    call = dict(zip((*_NAMES_OF_BATCH_NORM, "weight", "bias", "training"), node.args, strict=False)) | node.kwargs
    if call.get("training") is not True:
        return
    node.args = tuple(None if place in {1, 2} else argument for place, argument in enumerate(node.args))
    node.kwargs = {name: None if name in _STATISTICS else value for name, value in node.kwargs.items()}


def _is_counter(node: Any) -> bool:
    """Tell whether a node is an input of one whole number: how many batches were seen."""
    value = node.meta.get("example_value") if isinstance(node, fx.Node) and node.op == "placeholder" else None
    return isinstance(value, torch.Tensor) and not value.dim() and not value.is_floating_point()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One folder of steps."""

    folder: Path

    def step(self, source: str) -> Graph | None:
        """Return the step of a module; None when it was not seen. Raises NotTunable when it is not tuned."""
        try:
            found = json.loads((self.folder / f"{source}.json").read_text("utf-8"))
            reason = str(found.get("reason", ""))
            graph = None if reason else Graph.from_json(found["step"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        if reason:
            raise NotTunable(reason)
        return graph

    def keep(self, source: str, step: Graph) -> None:
        """Remember a step."""
        self._write(source, {"step": step.to_json()})

    def refuse(self, source: str, reason: str) -> None:
        """Remember why a module's step is not tuned."""
        self._write(source, {"reason": reason})

    def _write(self, source: str, found: dict[str, Json]) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_text(self.folder / f"{source}.json", json.dumps(found))
        except OSError as error:
            tell(f"{self.folder} cannot be written: {error.strerror}")
