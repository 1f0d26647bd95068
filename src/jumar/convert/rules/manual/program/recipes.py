"""Sets of opt-in rules by name, after the steps of the migration guide.

`guide` is the single-device part of the guide, `guide-amp` adds what its multi-device part does beyond that
(several devices themselves are the `distributed` mode's), `throughput` is the advice that came later, and
`affinity` are the rewrites to what an NPU computes faster.
"""

from __future__ import annotations

from collections.abc import Mapping

_GUIDE = ("JM150", "JM158")
_GUIDE_AMP = (*_GUIDE, "JM151", "JM154", "JM156", "JM157", "JM159", "JM160")
_THROUGHPUT = ("JM151", "JM152", "JM153", "JM157", "JM161", "JM162", "JM164")
_AFFINITY = tuple(f"JM{number}" for number in range(165, 175))

RECIPES: Mapping[str, tuple[str, ...]] = {
    "guide": _GUIDE,
    "guide-amp": _GUIDE_AMP,
    "throughput": _THROUGHPUT,
    "affinity": _AFFINITY,
}
"""Name of a recipe and the codes of its rules, for `--enable`."""
