"""`GradientResult`: what job type 4 found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from jumar.base.findings import Finding, Json
from jumar.tune.model.gate import Gain
from jumar.tune.model.machine import Machine
from jumar.tune.search.gradients.forms import Forms
from jumar.tune.search.gradients.model import Gradient, Link
from jumar.tune.search.gradients.splits import Split

Status = Literal["measured", "same", "known", "solved"]
"""What became of the proposal.

- `measured`: it was measured against the training's own split;
- `same`: it is the training's own split;
- `known`: the bank has the answer, nothing was measured again;
- `solved`: it comes from a recording and was not measured.
"""
Action = Literal["", "add", "update", "reserved", "unsatisfied"]
"""What was written to the bank, in the vendor's words; empty: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Who reduces the gradients."""

    num_processes: int
    backend: str
    is_wrapped: bool
    """The script has a DistributedDataParallel of its own."""
    is_default: bool
    """Its buckets are cut by the default settings, or it has none and is measured against these."""
    num_steps: int
    """Backward passes that were watched."""
    device: str
    """Type of the device that the parameters are on."""
    machine: Machine
    """Where times were measured: for an emulated NPU the CPU, which computes and reduces for it."""

    @property
    def is_emulated(self) -> bool:
        """Whether the device is an emulated one: what was measured says nothing about the real one."""
        return self.device != self.machine.device


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientResult:
    """The answer for one training or recording."""

    source: str
    gradients: Sequence[Gradient]
    """In ready order."""
    link: Link
    link_source: str
    """Where the link comes from, in words."""
    own: Split
    """The training's own split; of a recording that of the framework's default."""
    split: Split
    """The proposal."""
    others: Sequence[tuple[str, Split]]
    """What it is compared with by the model."""
    forms: Forms
    status: Status
    training: Training | None = None
    """None for a recording."""
    gain: Gain | None = None
    """The measurement that decides: a second one where the first was passed."""
    first_gain: Gain | None = None
    buckets_before: Sequence[int] = ()
    """Bytes of each bucket, as DDP says."""
    buckets_after: Sequence[int] = ()
    disagreement: str = ""
    action: Action = ""
    min_gain: float = 0.02
    bank: str = ""
    fusion_file: Path | None = None
    wall_s: float = 0.0
    framework: str = "torch"
    times_source: str = ""
    """In words, of a MindSpore recording: where the ready times come from, and what they are worth."""

    @property
    def findings(self) -> Sequence[Finding]:
        """None: the answer is in the fields."""
        return ()

    @property
    def is_faster(self) -> bool:
        """Whether the proposal was measured faster beyond the noise, and its gradients agree."""
        return self.gain is not None and self.gain.clears(self.min_gain) and not self.disagreement

    @property
    def backward_s(self) -> float:
        """From when the backward pass reaches the model to its last gradient."""
        return self.gradients[-1].ready_ns * 1e-9

    def to_json(self) -> dict[str, Json]:
        """Return everything as JSON values."""
        one = self.training
        training = None if one is None else {**asdict(one), "is_emulated": one.is_emulated}
        return {
            "job_type": 4,
            "source": self.source,
            "status": self.status,
            "is_faster": self.is_faster,
            "action": self.action,
            "gain": None if self.gain is None else self.gain.to_json(),
            "first_gain": None if self.first_gain is None else self.first_gain.to_json(),
            "min_gain": self.min_gain,
            "disagreement": self.disagreement,
            "training": training,
            "link": self.link.to_json(),
            "link_source": self.link_source,
            "times_source": self.times_source,
            "backward_s": self.backward_s,
            "own": self.own.to_json(),
            "split": self.split.to_json(),
            "others": {name: split.to_json() for name, split in self.others},
            "forms": self.forms.to_json(),
            "buckets_before": list(self.buckets_before),
            "buckets_after": list(self.buckets_after),
            "gradients": [one.to_json() for one in self.gradients],
            "bank": self.bank,
            "fusion_file": None if self.fusion_file is None else str(self.fusion_file),
            "wall_s": self.wall_s,
        }
