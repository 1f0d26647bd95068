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

from dataclasses import dataclass, field

from jumar.findings import Json, Location, Severity
from jumar.performance.checker import Checker, Priced, Result, unable
from jumar.performance.cost import Cost
from jumar.performance.shapes import Origin, ShapeChange, find_origins
from jumar.performance.subject import StepView, Subject, Totals
from jumar.performance.tally import listing, number_text, per_step, split_source
from jumar.recording.schema import CallRow
from jumar.rules import Rule

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
    num_new: int = 0
    operators: dict[str, int] = field(default_factory=dict)
    module_paths: dict[str, None] = field(default_factory=dict)


class ChangingShapes(Checker):
    """Keeps the signatures seen so far and, for each step with new ones, where the change came from."""

    rule = RULE

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._first: StepView | None = None
        self._seen: set[Signature] = set()
        self._by_site: dict[Site, set[Signature]] = {}
        self._grown: set[Site] = set()
        self._num_first = 0
        self._groups: dict[frozenset[Origin], Group] = {}
        self._num_steps = 0

    def observe(self, step: StepView) -> None:
        """Compare the step's signatures with all earlier ones."""
        self._num_steps += 1
        fresh = self._take_in(step)
        if self._first is None:
            self._first, self._num_first = step, len(self._seen)
            return
        if not fresh:
            return
        changes = find_origins(self._first, step)
        group = self._groups.setdefault(frozenset(change.origin for change in changes), Group())
        group.changes.extend(changes)
        group.steps.append(step.step)
        for (name, _), site in fresh:
            group.num_new += 1
            group.operators[name] = group.operators.get(name, 0) + 1
            group.module_paths[site[1]] = None

    def _take_in(self, step: StepView) -> list[tuple[Signature, Site]]:
        """Remember the step's signatures; return those that are new, at sites that had other ones in earlier steps."""
        fresh: list[tuple[Signature, Site]] = []
        arrived: dict[Site, set[Signature]] = {}
        for call in step.calls:
            if not call.launched or not self.subject.on_device(call):
                continue
            signature = _signature(call.row)
            site: Site = (call.row.phase, call.row.module_path, call.row.name, call.row.source)
            arrived.setdefault(site, set()).add(signature)
            if site in self._by_site and signature not in self._by_site[site]:
                self._grown.add(site)
                if signature not in self._seen:
                    fresh.append((signature, site))
            self._seen.add(signature)
        for site, signatures in arrived.items():
            self._by_site.setdefault(site, set()).update(signatures)
        return fresh

    def result(self, totals: Totals) -> Result:
        """Return one finding for each set of causes."""
        if self._num_steps < 2:
            return unable(f"needs two steps to compare, and the recording has {self._num_steps}; record --steps 0:3.")
        return Result(findings=tuple(self._finding(group, totals) for group in self._groups.values()))

    def _finding(self, group: Group, totals: Totals) -> Priced:
        causes = list(dict.fromkeys(change.describe() for change in group.changes))
        kinds = list(dict.fromkeys(change.origin.kind for change in group.changes))
        paths = [path for path in group.module_paths if path]
        evidence: dict[str, Json] = {
            "num_new_signatures": group.num_new,
            "num_first_step_signatures": self._num_first,
            "steps": [*group.steps[:20]],
            "num_steps_with_new_shapes": len(group.steps),
            "num_steps": totals.num_steps,
            "num_operators_with_changing_shapes": len(self._grown),
            "distinct_shapes": self._distinct_shapes(),
            "operators": dict(sorted(group.operators.items(), key=lambda item: -item[1])[:8]),
            "module_paths": [*paths[:8]],
            "num_module_paths": len(paths),
            "causes": [*causes[:5]],
            "compiled_online": self.subject.compiles_online,
        }
        finding = self.rule.finding(
            self._message(group, causes),
            where=_where(group),
            evidence=evidence,
            why=self._why(),
            action=" ".join(ACTIONS[kind] for kind in kinds if kind in ACTIONS)
            or "Find out why the shapes change between steps and keep them fixed.",
            confidence="certain" if kinds else "likely",
        )
        return Priced(finding, Cost(num_compiles=per_step(group.num_new, totals)))

    def _distinct_shapes(self) -> dict[str, Json]:
        """Return how many shapes the operators met in the module where they met most, greatest first."""
        most: dict[str, int] = {}
        for site in self._grown:
            most[site[2]] = max(most.get(site[2], 0), len(self._by_site[site]))
        return dict(sorted(most.items(), key=lambda item: -item[1])[:8])

    def _message(self, group: Group, causes: list[str]) -> str:
        work = "compiled" if self.subject.compiles_online else "prepared"
        cause = f" because {listing(causes, 2)}" if causes else ""
        steps = f"step {group.steps[0]}" if len(group.steps) == 1 else f"{len(group.steps)} steps after the first"
        return (
            f"Shapes change in {steps}{cause}: {number_text(group.num_new)} operator signatures beyond the first "
            f"step's {self._num_first} are {work} on {self.subject.soc.name} in mid-training."
        )

    def _why(self) -> str:
        if self.subject.compiles_online:
            return (
                f"{self.subject.soc.name} compiles an operator online for each new shape unless jit_compile is False."
            )
        return (
            f"{self.subject.soc.name} uses precompiled kernels (jit_compile=False is its default), so a new shape "
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
        path=path or None,
        line=line,
        module_path=change.module_path or None,
        operator=change.operator or None,
        phase=change.phase or None,
        step=group.steps[0],
    )
