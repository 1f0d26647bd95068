"""Policies: what is chosen for an operator, of three kinds, and how they stack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jumar.base.findings import Json

PolicyKind = Literal["Subgraph", "Format", "Impl", "Schedule"]
KINDS: tuple[PolicyKind, ...] = ("Subgraph", "Format", "Impl", "Schedule")
"""For a graph its plan; for an operator the vendor's three kinds, in the order in which they wrap it: the layout of
its tensors innermost, then who computes it, then with how many threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One choice of one kind, made by one provider."""

    kind: PolicyKind
    provider: str
    settings: Mapping[str, Json] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Policy:
        """Rebuild a policy from `to_json`. Raises KeyError, TypeError or ValueError on foreign input."""
        return cls(kind=kind_of(data["kind"]), provider=data["provider"], settings=dict(data["settings"]))

    def to_json(self) -> dict[str, Json]:
        """Return the policy as JSON values."""
        return {"kind": self.kind, "provider": self.provider, "settings": dict(self.settings)}

    def __str__(self) -> str:
        """`channels_last`, `threads num_threads=1`."""
        return " ".join([self.provider, *(f"{name}={value}" for name, value in sorted(self.settings.items()))])


def kind_of(name: str) -> PolicyKind:
    """Return the kind of that name. Raises ValueError when there is none."""
    for kind in KINDS:
        if kind == name:
            return kind
    raise ValueError(f"the kind of a policy must be one of {', '.join(KINDS)}; got {name}")


Stack = tuple[Policy, ...]
"""At most one policy a kind, in the order of `KINDS`; empty: the operator as PyTorch runs it by default."""


def replace_in(stack: Stack, policy: Policy) -> Stack:
    """Return `stack` with `policy` in the place of its kind."""
    others = [other for other in stack if other.kind != policy.kind]
    return in_order([*others, policy])


def in_order(policies: Iterable[Policy]) -> Stack:
    """Return the policies in the order in which they are applied."""
    return tuple(sorted(policies, key=lambda policy: KINDS.index(policy.kind)))


def stack_to_json(stack: Stack) -> list[Json]:
    """Return a stack as JSON values."""
    return [policy.to_json() for policy in stack]


def stack_from_json(data: Iterable[Mapping[str, Any]]) -> Stack:
    """Rebuild a stack from `stack_to_json`."""
    return in_order(Policy.from_json(item) for item in data)


def describe(stack: Stack) -> str:
    """Return the stack in words: `channels_last + inductor`, `default`."""
    return " + ".join(map(str, stack)) or "default"
