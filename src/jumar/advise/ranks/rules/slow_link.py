"""JM443 slow-link.

## What it does
Compares the bandwidth of the links between ranks that use the same transport, from the vendor's matrix of
communication, and names those that are much slower than the others.

## Why it matters
A collective is as fast as its slowest link.

## Example
One cable of a machine runs at half of its lanes: every all-reduce over it takes twice as long.

## Use instead
Check the link (`hccn_tool -i 3 -link -g`, `npu-smi info -t topo`), its optical module and the switch's port. Until it
is mended, give the ranks another order, so that the link carries less.

## Fix safety
No edit is made.

## References
`communication_matrix.json` of the Ascend PyTorch profiler; the vendor's guide to slow links in a cluster.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from jumar.advise.bottlenecks.run import PRICE
from jumar.advise.bottlenecks.tally import percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.ranks.links import Link, distinct
from jumar.advise.ranks.ranks import Ranks
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM443",
    name="slow-link",
    summary="One link between ranks is slower than the others of its kind.",
    severity=Severity.ADVICE,
    doc=__doc__,
)
LEAST_LINKS = 3


def find(ranks: Ranks) -> Outcomes:
    """Yield a finding for each transport with a link that is slower than its share of the usual bandwidth."""
    by_transport: dict[str, list[Link]] = defaultdict(list)
    for link in distinct(ranks.links):
        source, _, target = link.pair.partition("-")
        if link.bandwidth and link.size_mb >= ranks.thresholds.of("JM443", "least_mb") and source != target:
            by_transport[link.transport].append(link)
    compared = {name: links for name, links in by_transport.items() if len(links) >= LEAST_LINKS}
    if not compared:
        yield not_checked(
            RULE, "the profile has no matrix of links with three of one transport (the Ascend profiler writes one)."
        )
    for transport, links in compared.items():
        usual = float(np.median([link.bandwidth for link in links]))
        slow = min(links, key=lambda link: link.bandwidth)
        if slow.bandwidth >= ranks.thresholds.of("JM443", "share") * usual:
            continue
        saved = slow.time_ms - slow.size_mb / usual
        steps = max((len(one.steps) for one in ranks.decompositions), default=1) or 1
        yield RULE.finding(
            f"The link {slow.pair} ({transport}) moves {slow.bandwidth:,.1f} GB/s where the {len(links) - 1} others of "
            f"its kind move {usual:,.1f} in the median, {percent_text(slow.bandwidth / usual)} of it.",
            evidence={"link": slow.pair, "transport": transport, "gb_per_s": round(slow.bandwidth, 3),
                      "usual_gb_per_s": round(usual, 3), "links_compared": len(links),
                      "saves_at_most_ms_per_step": round(saved / steps, 3), PRICE: round(1000 * saved / steps, 1)},
            why="A collective is as fast as its slowest link.",
            action=f"Check the link between the ranks {slow.pair.replace('-', ' and ')}: its port, cable and module.",
        )  # fmt: skip
