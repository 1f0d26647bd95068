"""The interface of a provider: who offers policies and knows how to apply them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from jumar.tune.engines.base import Site
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Function, Policy, PolicyKind, Task


class Provider(ABC):
    """Offers policies of one kind. One provider is one file and one class without state.

    Contract
    - The class is made without arguments and is found by its import path in the worker process, so it
      must be importable there.
    - `unavailable` and `candidates` run in the tuner's process: they import no torch, measure nothing,
      and give the same answer for the same task and machine.
    - `apply` runs in a worker process that is the candidate's own. It may compile, may be slow, may
      raise anything, and may even crash the process: that costs this candidate only.
    - The function that `apply` returns takes and returns what the given one does: the same values up to
      rounding, the same shapes, dtypes and *strides*, its arguments unchanged, on every call. Whatever
      the policy costs at run time (converting layouts there and back, setting threads) happens inside
      the function, so that it is measured.
    - A policy's `settings` are all that `apply` needs besides the task: two processes that apply equal
      policies compute alike.

    `tests/tune/provider_contract.py` is this contract as a test class; subclass it for a new provider.
    """

    name: ClassVar[str]
    """Unique among providers; part of every policy in the bank, so it never changes."""
    kind: ClassVar[PolicyKind]
    devices: ClassVar[frozenset[str]] = frozenset({"cpu"})
    """Where it may be asked for candidates, by `Machine.device`."""
    preload: ClassVar[tuple[str, ...]] = ()
    """Modules that the worker imports once, before it forks for each candidate."""

    def unavailable(self, machine: Machine) -> str:
        """Return why this provider cannot work on `machine`, as one sentence; empty when it can."""
        return ""

    @abstractmethod
    def candidates(self, task: Task, machine: Machine) -> Sequence[Policy]:
        """Return the policies worth a measurement for `task`; empty when there is none."""

    @abstractmethod
    def apply(self, policy: Policy, function: Function, example: Sequence[Any], site: Site) -> Function:
        """Return `function`, which takes the variable inputs, under `policy`.

        `example` are those inputs and must stay as they are. `site` has what else there is to build from: the graph
        (of one node for an operator), its weights, room for files.
        """

    def policy(self, **settings: Any) -> Policy:
        """Return a policy of this provider."""
        return Policy(kind=self.kind, provider=self.name, settings=settings)
