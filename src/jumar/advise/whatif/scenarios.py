"""The questions: `loader:free`, `operator:NAME:x0.5`, `optimizer:fused`, `amp`, `gpus:16`, and what each assumes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jumar.advise.timing.products import is_product
from jumar.advise.timing.profile import Profile
from jumar.advise.whatif.replay import DEVICE, Change, Numbers, unchanged
from jumar.base.errors import UsageError
from jumar.timeline.model.events import Integers, Kind
from jumar.timeline.spans import Spans

PRODUCT_IN_HALF, BYTES_IN_HALF = 0.5, 0.6
"""Assumed for `amp`: a 16-bit product takes half the time of a 32-bit one at most (matrix units are 2 to 16 times as
fast), and other kernels, bound by memory, six tenths (half the bytes, but for master weights and sums in float32)."""
FUSED_HOST = 0.1
"""Assumed for a fused optimizer: a tenth of the host's time; the same bytes on the device."""


@dataclass(frozen=True, slots=True)
class Question:
    """One change and what it assumes, in a sentence."""

    change: Change
    assumes: str


def question(text: str, profile: Profile) -> Question:
    """Return what a question changes. Raises UsageError for an unknown one, or one that this timeline cannot answer."""
    for pattern, make in _FORMS.items():
        match = re.fullmatch(pattern, text.strip())
        if match is not None:
            return make(profile, *match.groups())
    raise UsageError(f'"--what-if {text}" must be loader:free, operator:NAME:x0.5, optimizer:fused, amp or gpus:16.')


def _loader(profile: Profile) -> Question:
    spans = profile.of_events(_found(profile, profile.timeline.of(Kind.DATA), "a data loader"))
    return Question(_host(profile, spans, 0.0), "batches are there when they are asked for.")


def _operator(profile: Profile, name: str, factor: str) -> Question:
    timeline, left = profile.timeline, float(factor)
    named = np.fromiter((name.lower() in one.lower() for one in timeline.names), bool, len(timeline.names))
    chosen = _found(profile, named[timeline.events.name], f"an event named {name}")
    host = chosen & timeline.of(Kind.OPERATOR) & timeline.on("host")
    has_device = bool((timeline.of(*DEVICE) & timeline.on("device")).any())
    factors = np.ones(len(timeline.events))
    factors[chosen & timeline.of(*DEVICE)] = left
    factors[_started_in(profile, profile.of_events(host))] = left
    if has_device:
        change = Change(host=Spans.none(), host_factor=1.0, factors=factors)
        return Question(change, f"its kernels take {left:g} of their time; the host's side stays.")
    return Question(_host(profile, profile.of_events(host), left), f"it takes {left:g} of its time.")


def _optimizer(profile: Profile) -> Question:
    mask = _found(profile, profile.named("optimizer.step", kinds=[Kind.RANGE]), "an optimizer's step")
    assumes = f"its host time falls to {FUSED_HOST:g}; its kernels take as long together."
    return Question(_host(profile, profile.of_events(mask), FUSED_HOST), assumes)


def _amp(profile: Profile) -> Question:
    timeline = profile.timeline
    kernels = _found(profile, timeline.of(Kind.KERNEL) & timeline.on("device"), "a kernel of a device")
    products = kernels & timeline.named(is_product)
    factors = np.where(products, PRODUCT_IN_HALF, np.where(kernels, BYTES_IN_HALF, 1.0))
    assumes = (
        f"matrix products take {PRODUCT_IN_HALF:g} of their time, other kernels {BYTES_IN_HALF:g}; the casts that "
        "autocast adds are not counted."
    )
    return Question(Change(host=Spans.none(), host_factor=1.0, factors=factors), assumes)


def _gpus(profile: Profile, number: str) -> Question:
    """A ring all-reduce of n ranks moves 2 (n - 1) / n of the bytes over each link (Patarasuk and Yuan, 2009)."""
    timeline, after, before = profile.timeline, int(number), profile.timeline.num_ranks
    if before < 2 or after < 2:
        raise UsageError(f'"--what-if gpus:{number}" needs a run of several ranks; this one has {before}.')
    collectives = _found(profile, timeline.of(Kind.COLLECTIVE), "a collective")
    left = ((after - 1) / after) / ((before - 1) / before)
    assumes = (
        f"each rank keeps its batch, and a collective takes {left:.3g} of its time: a ring over links like today's, "
        "latency left out. Slower links between machines are not foreseen."
    )
    factors: Numbers = np.where(collectives, left, 1.0)
    host = profile.of_events(collectives & timeline.on("host"))
    has_device = bool((collectives & timeline.on("device")).any())
    change = Change(host=Spans.none() if has_device else host, host_factor=left, factors=factors)
    return Question(change, assumes)


_FORMS: dict[str, Callable[..., Question]] = {
    r"loader:free": _loader,
    r"operator:(.+):x(\d+(?:\.\d+)?)": _operator,
    r"optimizer:fused|fused-optimizer": _optimizer,
    r"amp": _amp,
    r"gpus:(\d+)": _gpus,
}


def _host(profile: Profile, spans: Spans, factor: float) -> Change:
    return Change(host=spans, host_factor=factor, factors=unchanged(profile.timeline).factors)


def _found(profile: Profile, mask: np.ndarray, what: str) -> np.ndarray:
    if not mask.any():
        raise UsageError(f"{profile.timeline.source} must hold {what} to answer that; it has none.")
    return mask


def _started_in(profile: Profile, spans: Spans) -> Integers:
    """Return the device's events that the host launched in these spans."""
    timeline, events = profile.timeline, profile.timeline.events
    calls = timeline.on("host") & (events.link != 0) & spans.hold(events.start_ns)
    chosen = np.isin(events.link, events.link[calls]) & timeline.of(*DEVICE) & timeline.on("device")
    return np.flatnonzero(chosen)
