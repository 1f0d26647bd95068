"""JM403 changing-shapes.

## What it does
Compares the shapes that each operator of each module meets from step to step. Reports how many
operators meet more than one, which dimension of which tensor changes first in the step and from which
source line it comes, and how many operator signatures (name, dtypes, shapes) appear for the first time
after the first recorded step: each is one that the NPU has to prepare in the middle of training.

## Why it matters
On Atlas training and inference products (Ascend 910A, 310) operators are compiled online for each new
shape by default; one compile takes far longer than a step. On Atlas A2 and A3 precompiled kernels are
used, and a new shape costs kernel selection and tiling; anything compiled as a graph compiles again.

## Example
```python
loader = DataLoader(dataset, batch_size=32)          # last batch: 17
mask = scores > 0.5; kept = scores[mask]             # length depends on the data
```

## Use instead
```python
loader = DataLoader(dataset, batch_size=32, drop_last=True)
kept = torch.where(mask, scores, 0.0)
```
Pad sequences to one length or to a few fixed lengths. Where shapes have to vary on an Ascend 910A, turn
online compilation off: `torch.npu.set_compile_mode(jit_compile=False)`.

## Fix safety
No edit is made: `drop_last` changes which samples are seen, padding changes the loss unless it is masked.

## References
Ascend's PyTorch migration and training guide, "compile bottleneck" and the dynamic-shape error "match op
inputs failed"; the vendor's pages on `torch_npu.npu.set_compile_mode` and binary operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from jumar.advise.bottlenecks.cost import Cost
from jumar.advise.bottlenecks.run import Run, StepView
from jumar.advise.bottlenecks.shapes import Origin, ShapeChange, find_origins
from jumar.advise.bottlenecks.tally import number_text, per_step
from jumar.advise.checks import Outcomes, not_checked
from jumar.base.findings import Finding, Json, Location, Severity
from jumar.base.rules import Rule
from jumar.base.text import listing
from jumar.recording.schema import CallRow, split_source

RULE = Rule(
    code="JM403",
    name="changing-shapes",
    summary="Operators meet shapes that change between steps, and the NPU prepares each anew.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

Signature = tuple[str, tuple[tuple[str, tuple[int, ...]], ...]]
Site = tuple[str, str, str, str]
"""Phase, module path, operator, source line: what is the same call in every step."""

ACTIONS = {
    "batch": "Give every step the same batch size: `drop_last=True` in the DataLoader, or pad the last batch.",
    "length": "Pad to one length, or to a few fixed lengths (buckets), and mask the padding.",
    "data": "Replace the operator whose output size depends on the data by one of fixed size (`torch.where`, a mask, "
    "`topk` with a fixed k).",
}


@dataclass(slots=True)
class Group:
    """Steps whose shapes changed for the same reasons."""

    changes: list[ShapeChange] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    operators: Counter[str] = field(default_factory=Counter)
    module_paths: dict[str, None] = field(default_factory=dict)

    def add(self, step: StepView, changes: Sequence[ShapeChange], fresh: Sequence[Site]) -> None:
        """Count in a step with its new signatures, one for each site in `fresh`."""
        self.changes.extend(changes)
        self.steps.append(step.step)
        for _, module_path, operator, _ in fresh:
            self.operators[operator] += 1
            self.module_paths[module_path] = None


class Signatures:
    """The signatures of all steps so far."""

    def __init__(self) -> None:
        self.seen: set[Signature] = set()
        self.by_site: dict[Site, set[Signature]] = {}
        self.grown: dict[Site, None] = {}
        """Sites that met more than one signature, in the order in which they did."""

    def add(self, run: Run, step: StepView) -> list[Site]:
        """Take in a step; return the site of each new signature where earlier steps had others."""
        fresh: list[Site] = []
        arrived: dict[Site, set[Signature]] = {}
        for call in step.calls:
            if not call.launched or not run.on_device(call):
                continue
            signature = _signature(call.row)
            site: Site = (call.row.phase, call.row.module_path, call.row.name, call.row.source)
            arrived.setdefault(site, set()).add(signature)
            if site in self.by_site and signature not in self.by_site[site]:
                self.grown[site] = None
                if signature not in self.seen:
                    fresh.append(site)
            self.seen.add(signature)
        for site, signatures in arrived.items():
            self.by_site.setdefault(site, set()).update(signatures)
        return fresh

    def most_at_a_site(self) -> dict[str, Json]:
        """Return for each operator how many shapes it met in the module where it met most, greatest first."""
        most: dict[str, int] = {}
        for site in self.grown:
            most[site[2]] = max(most.get(site[2], 0), len(self.by_site[site]))
        return dict(sorted(most.items(), key=lambda item: -item[1])[:8])


def find(run: Run) -> Outcomes:
    """Yield one finding for each set of causes."""
    signatures = Signatures()
    groups: dict[frozenset[Origin], Group] = {}
    first: StepView | None = None
    num_first = 0
    for step in run.steps:
        fresh = signatures.add(run, step)
        if first is None:
            first, num_first = step, len(signatures.seen)
        elif fresh:
            changes = find_origins(first, step)
            groups.setdefault(frozenset(change.origin for change in changes), Group()).add(step, changes, fresh)
    if run.totals.num_steps < 2:
        reason = f"needs two steps to compare, and the recording has {run.totals.num_steps}; record --steps 0:3."
        yield not_checked(RULE, reason)
        return
    for group in groups.values():
        yield _finding(run, group, signatures, num_first)


def _finding(run: Run, group: Group, signatures: Signatures, num_first: int) -> Finding:
    causes = list(dict.fromkeys(change.describe() for change in group.changes))
    kinds = list(dict.fromkeys(change.origin.kind for change in group.changes))
    paths = [path for path in group.module_paths if path]
    num_new = group.operators.total()
    evidence: dict[str, Json] = {
        "num_new_signatures": num_new,
        "num_first_step_signatures": num_first,
        "steps": [*group.steps[:20]],
        "num_steps_with_new_shapes": len(group.steps),
        "num_steps": run.totals.num_steps,
        "num_operators_with_changing_shapes": len(signatures.grown),
        "distinct_shapes": signatures.most_at_a_site(),
        "operators": dict(group.operators.most_common(8)),
        "module_paths": [*paths[:8]],
        "num_module_paths": len(paths),
        "causes": [*causes[:5]],
        "compiled_online": run.compiles_online,
    }
    work = "compiled" if run.compiles_online else "prepared"
    cause = f" because {listing(causes, 2)}" if causes else ""
    steps = f"step {group.steps[0]}" if len(group.steps) == 1 else f"{len(group.steps)} steps after the first"
    finding = RULE.finding(
        f"Shapes change in {steps}{cause}: {number_text(num_new)} operator signatures beyond the first "
        f"step's {num_first} are {work} on {run.soc.name} in mid-training.",
        where=_where(group),
        evidence=evidence,
        why=_why(run),
        action=" ".join(ACTIONS[kind] for kind in kinds)
        or "Find out why the shapes change between steps and keep them fixed.",
        confidence="certain" if kinds else "likely",
    )
    return run.priced(finding, Cost(num_compiles=per_step(num_new, run.totals)))


def _why(run: Run) -> str:
    if run.compiles_online:
        return f"{run.soc.name} compiles an operator online for each new shape unless jit_compile is False."
    return (
        f"{run.soc.name} uses precompiled kernels (jit_compile=False is its default), so a new shape "
        "costs selection and tiling; a compiled graph is compiled again."
    )


def _signature(row: CallRow) -> Signature:
    """Return what a kernel is prepared for; operators without a tensor input count by what they make."""
    return row.name, tuple((tensor.dtype, tensor.shape) for tensor in row.inputs or row.outputs)


def _where(group: Group) -> Location:
    if not group.changes:
        return Location(step=group.steps[0])
    change = group.changes[0]
    path, line = split_source(change.source)
    return Location(
        path=path,
        line=line,
        module_path=change.module_path or None,
        operator=change.operator or None,
        phase=change.phase or None,
        step=group.steps[0],
    )
