"""`Plan`: all changes that make one entry script run on several devices, or the reason why there are none.

The rules of this group share one plan a file, so that a script is converted as a whole or not at all.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import libcst as cst

from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.distributed.program import decisions, entry, loaders, models, numbers, outputs
from jumar.convert.rules.distributed.program.change import Change
from jumar.convert.rules.distributed.program.flow import Flow
from jumar.convert.rules.distributed.program.helpers import NAMES
from jumar.convert.rules.distributed.program.training import Training, Unclear
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.source import Source

PARTS = ("entry", "loaders", "models", "numbers", "outputs", "decisions")
"""The parts of a plan, one a rule."""
CODES = frozenset({"JM175", "JM176", "JM177", "JM178", "JM179", "JM180"})
"""The rules that make one part each. When one of them is disabled, nothing is converted."""

_FRAMEWORKS = {
    "accelerate": "Accelerate", "lightning": "Lightning", "pytorch_lightning": "Lightning", "deepspeed": "DeepSpeed",
    "horovod": "Horovod", "ignite": "Ignite", "transformers.Trainer": "Transformers' Trainer", "fastai": "fastai",
    "colossalai": "Colossal-AI", "mmengine": "MMEngine", "mmcv": "MMCV", "ray": "Ray", "composer": "Composer",
    "catalyst": "Catalyst", "megatron": "Megatron",
}  # fmt: skip
_STARTS = (
    "torch.distributed.init_process_group",
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_shard",
    "torch.distributed.device_mesh.init_device_mesh",
    "torch.multiprocessing.spawn",
    "torch.multiprocessing.Process",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes of a script by part, or why there are none."""

    parts: Mapping[str, tuple[Change, ...]] = field(default_factory=dict)
    refusal: Unclear | None = None
    already: Unclear | None = None
    """Set when the script uses several devices by itself."""


_PLANS: weakref.WeakKeyDictionary[Source, Plan] = weakref.WeakKeyDictionary()


def is_main(context: Context) -> bool:
    """Tell whether a file is the entry script that is to use several devices."""
    wanted = context.options.distributed
    if wanted is None:
        return False
    main, path = PurePosixPath(wanted.main.replace("\\", "/")), PurePosixPath(context.source.path)
    return main == path or (len(path.parts) == 1 and main.name == path.name)


def plan_of(context: Context) -> Plan | None:
    """Return the plan of the entry script, None for every other file."""
    if not is_main(context):
        return None
    known = _PLANS.get(context.source)
    if known is None:
        known = _PLANS[context.source] = _make(context)
    return known


def proposals(context: Context, rule: Rule, part: str) -> Iterator[Proposal]:
    """Yield a rule's part of the plan, in the order of the source."""
    plan = plan_of(context)
    changes = plan.parts.get(part, ()) if plan is not None else ()
    yield from (change.proposal(rule, context) for change in changes)


def _make(context: Context) -> Plan:
    source = context.source
    already = already_distributed(source)
    if already is not None:
        return Plan(already=already)
    try:
        return Plan(_parts(context))
    except Unclear as reason:
        return Plan(refusal=reason)


def _parts(context: Context) -> dict[str, tuple[Change, ...]]:
    source = context.source
    wanted = context.options.distributed
    _check(context)
    training = Training(Flow(source), wanted.model if wanted is not None else "model")
    _check_training(training)
    found = {
        "loaders": tuple(loaders.changes(training)),
        "models": tuple(models.changes(training)),
        "numbers": tuple(numbers.changes(context)),
        "outputs": tuple(outputs.changes(training)),
        # What is around another change comes first, so that it is written around it.
        "decisions": tuple(sorted(decisions.changes(training), key=lambda change: (change.span[0], -change.span[1]))),
    }
    others = [change for changes in found.values() for change in changes]
    needed = sorted({name for change in others for name in change.helpers} - {"start_ranks"})
    found["entry"] = tuple(entry.changes(context, needed, others))
    _check_conflicts(context, [change for changes in found.values() for change in changes])
    return found


def _check(context: Context) -> None:
    """Raise Unclear for what no change could make right."""
    source = context.source
    left_out = sorted(CODES & context.options.disable)
    if left_out:
        raise Unclear(f"{', '.join(left_out)} is disabled, and the parts of the conversion need each other")
    scope = source.tree.own_scopes[source.module]
    taken = sorted(name for name in NAMES if scope.bindings.get(name))
    if taken:
        raise Unclear(f"it uses the name {taken[0]} for something else", action="Rename it.")
    for name in ("os", "sys", "logging", "torch"):
        others = [binding for binding in scope.bindings.get(name, ()) if binding.qualified != name]
        if others:
            raise Unclear(f"it uses the name {name} for something else", others[0].node, "Rename it.")
    for call in source.nodes(cst.Call):
        if source.qualified(call.func) == "torch.optim.LBFGS":
            raise Unclear("LBFGS decides its steps from the loss of one rank", call, "Use another optimizer.")


def _check_training(training: Training) -> None:
    name_it = "Name the file that holds the training with -m."
    if not training.optimizers:
        raise Unclear("it makes no optimizer of torch.optim", action=name_it)
    if not training.backwards and not training.outside:
        raise Unclear(
            "it runs no backward pass, and no function of another file is given its optimizer", action=name_it
        )
    if not training.loaders:
        raise Unclear("its training goes over no torch.utils.data.DataLoader of this file")


def already_distributed(source: Source) -> Unclear | None:
    """Return what shows that a script uses several devices by itself."""
    for reference in source.references:
        if reference.name in _STARTS or any(name in _STARTS for name in reference.names):
            return Unclear(f"`{source.code(reference.node)}` is there already", reference.node)
    for reference in source.references:
        for name in (reference.names[0].partition(".")[0], reference.name):
            if name in _FRAMEWORKS:
                return Unclear(f"{_FRAMEWORKS[name]} starts its own processes", reference.node)
    return None


def _check_conflicts(context: Context, changes: list[Change]) -> None:
    """Raise Unclear where a rule that ran before changes the same characters: the plan is made whole or not."""
    made = [edit for proposal in context.proposals for edit in proposal.replacements]
    for change in changes:
        for edit in change.replacements:
            if any(edit.overlaps(other) for other in made):
                raise Unclear("a user rule changes the same place", None, "Convert in two runs.")
