"""Providers, one file each behind `Provider`; the tuner knows only this list."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace

from jumar.tune.engines.base import Site
from jumar.tune.model.errors import TuneError
from jumar.tune.model.machine import Machine
from jumar.tune.model.task import Function, Policy, Stack
from jumar.tune.providers.base import Provider
from jumar.tune.providers.engine import KernelsOperator, KernelsSchedule, OnnxRuntimeOperator, OpenVinoOperator
from jumar.tune.providers.formats import ChannelsLast, Contiguous
from jumar.tune.providers.npu_attention import NpuAttention
from jumar.tune.providers.npu_format import NpuFormat
from jumar.tune.providers.pytorch import Inductor, Native, Threads
from jumar.tune.providers.reused import Reused

__all__ = ["PROVIDERS", "Provider", "apply_stack", "import_path", "load_provider", "providers_on"]

PROVIDERS: tuple[Provider, ...] = (
    Contiguous(),
    ChannelsLast(),
    Native(),
    Reused(),
    Inductor(),
    OnnxRuntimeOperator(),
    OpenVinoOperator(),
    KernelsOperator(),
    KernelsSchedule(),
    Threads(),
    NpuFormat(),
    NpuAttention(),
)
"""In the order in which candidates of a kind are tried."""


def providers_on(machine: Machine) -> list[Provider]:
    """Return the providers for the device of `machine`, whether what they need is installed or not."""
    return [provider for provider in PROVIDERS if machine.device in provider.devices]


def import_path(provider: Provider) -> str:
    """Return where a worker process finds the provider: `package.module:Class`."""
    return f"{type(provider).__module__}:{type(provider).__qualname__}"


def load_provider(path: str) -> Provider:
    """Return the provider at an import path. Raises TuneError when there is none."""
    module, _, name = path.partition(":")
    try:
        provider = getattr(importlib.import_module(module), name)()
    except (ImportError, AttributeError) as error:
        raise TuneError(f"{path} is not a provider ({error}); make its module importable.") from error
    if not isinstance(provider, Provider):
        raise TuneError(f"{path} must be a subclass of Provider; got {type(provider).__name__}.")
    return provider


def apply_stack(stack: Stack, function: Function, site: Site, providers: Sequence[Provider]) -> Function:
    """Return `function` under every policy of `stack`, innermost first. Raises TuneError for an unknown provider.

    Each has a folder of its own: a library that one has loaded must not be written over by another's.
    `providers` are known besides Jumar's own. The bank may hold policies of Jumar's own in every search.
    """
    for place, policy in enumerate(stack):
        provider, folder = _provider_of(policy, providers), site.folder / f"policy-{place}"
        folder.mkdir(parents=True, exist_ok=True)
        function = provider.apply(policy, function, site.example, replace(site, folder=folder))
    return function


def _provider_of(policy: Policy, providers: Sequence[Provider]) -> Provider:
    for provider in (*providers, *PROVIDERS):
        if provider.name == policy.provider:
            return provider
    raise TuneError(f"the bank holds a policy of {policy.provider}, which this Jumar does not have; tune again.")
