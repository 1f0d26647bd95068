"""Schedule: fewer threads for one operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jumar.tune.engines.base import Site
from jumar.tune.machine import Machine
from jumar.tune.policy import Policy
from jumar.tune.providers.base import Provider
from jumar.tune.task import Function, Task


class Threads(Provider):
    """1, 2, 4, … threads below the default: small operators lose more to waking threads than they gain."""

    name = "threads"
    kind = "Schedule"

    def candidates(self, task: Task, machine: Machine) -> Sequence[Policy]:
        """Offer the powers of two below the machine's default."""
        counts = (2**power for power in range(machine.num_threads.bit_length()))
        return [self.policy(num_threads=count) for count in counts if count < machine.num_threads]

    def apply(self, policy: Policy, function: Function, example: Sequence[Any], site: Site) -> Function:
        """Set the number before each call and put it back after it."""
        import torch

        count = int(str(policy.settings["num_threads"]))

        def call(*tensors: torch.Tensor) -> Any:
            before = torch.get_num_threads()  # of this call: the program may have set another since `apply`
            torch.set_num_threads(count)
            try:
                return function(*tensors)
            finally:
                torch.set_num_threads(before)

        return call
