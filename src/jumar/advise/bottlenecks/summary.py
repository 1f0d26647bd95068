"""The operator table and the steps' figures, added up while the steps go by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from jumar.advise.bottlenecks.advice import OperatorSummary, StepSummary
from jumar.advise.bottlenecks.run import Call, Run, StepView, Totals


@dataclass(slots=True)
class _Entry:
    num_calls: int = 0
    host_us: float = 0.0
    bytes_moved: int = 0
    flops: int | None = None
    is_view: bool = False
    dtypes: dict[str, None] = field(default_factory=dict)
    phases: dict[str, None] = field(default_factory=dict)


class OperatorTable:
    """Sums by operator name."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def observe(self, step: StepView) -> None:
        """Add one step's calls."""
        for call in step.calls:
            self._add(call)

    def _add(self, call: Call) -> None:
        entry = self._entries.setdefault(call.row.name, _Entry(is_view=call.is_view))
        entry.num_calls += 1
        entry.host_us += call.row.duration_us
        entry.bytes_moved += call.bytes_moved
        if call.flops is not None:
            entry.flops = (entry.flops or 0) + call.flops
        for tensor in call.row.inputs[:1] or call.row.outputs[:1]:
            entry.dtypes[tensor.dtype] = None
        entry.phases[call.row.phase] = None

    def rows(self, totals: Totals, support: Callable[[str], str]) -> tuple[OperatorSummary, ...]:
        """Return the table, greatest share of host time first, then bytes; `support` gives an operator's status."""
        steps = max(totals.num_steps, 1)
        rows = [
            OperatorSummary(
                name=name,
                num_calls=entry.num_calls,
                calls_per_step=entry.num_calls / steps,
                host_time_us_per_step=entry.host_us / steps,
                host_time_share=entry.host_us / totals.operator_us if totals.operator_us else 0.0,
                bytes_per_step=entry.bytes_moved / steps,
                flops_per_step=None if entry.flops is None else entry.flops / steps,
                dtypes=tuple(entry.dtypes),
                phases=tuple(entry.phases),
                is_view=entry.is_view,
                support="view" if entry.is_view else support(name),
            )
            for name, entry in self._entries.items()
        ]
        return tuple(sorted(rows, key=lambda row: (-row.host_time_share, -(row.bytes_per_step or 0.0), row.name)))


def summarise_step(step: StepView, run: Run) -> StepSummary:
    """Return one step's figures; all zero for a step without operator rows."""
    phases: dict[str, float] = {}
    for call in step.calls:
        phases[call.row.phase] = phases.get(call.row.phase, 0.0) + call.row.duration_us
    rows = [*(call.row for call in step.calls), *step.modules]
    return StepSummary(
        step=step.step,
        span_us=max((row.start_us + row.duration_us for row in rows), default=0.0),
        operator_us=sum(phases.values()),
        phase_us=phases,
        wait_us=wait_us(step, run),
        num_operators=sum(call.launched for call in step.calls),
        bytes_moved=sum(call.bytes_moved for call in step.calls),
        flops=sum(call.flops or 0 for call in step.calls),
    )


def wait_us(step: StepView, run: Run) -> float:
    """Return the host time before the model is first called, without operators on the device in between.

    Such operators are those that follow the last optimizer step, e.g. reading the loss. Without module
    calls, the time before the first call on the device.
    """
    starts = [row.start_us for row in step.modules if row.phase == "forward"]
    starts += [call.row.start_us for call in step.calls if call.row.module_type and call.row.phase == "forward"]
    on_device = [call.row for call in step.calls if run.accelerator and run.on_device(call)]
    first = min(starts or [row.start_us for row in on_device], default=0.0)
    return max(first - sum(row.duration_us for row in on_device if row.start_us < first), 0.0)
