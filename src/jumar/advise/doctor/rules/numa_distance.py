"""JM823 numa-distance.

## What it does
Compares the cores and the NUMA nodes that this process may use with the nodes that the NPUs are attached to.

## Why it matters
Copies between host and device cross the link between the processors, and so does every launch. It costs throughput
and makes times uneven.

## Example
```
numactl --cpunodebind=3 python train.py      # the NPU is at node 0
```

## Use instead
```
numactl --cpunodebind=0 --membind=0 python train.py
```

## Fix safety
No edit is made.

## References
Linux, /sys/bus/pci/devices/*/numa_node and /proc/self/status; `npu-smi info -t topo` shows the same.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM823",
    name="numa-distance",
    summary="The process runs away from the NUMA node of its devices.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(host: Host) -> Outcomes:
    """Compare allowed cores with the devices' nodes."""
    place = host.placement
    if not host.has_npu_software or len(place.node_cores) == 1:
        return
    if not place.device_nodes or not place.node_cores or not place.allowed_cores:
        yield not_checked(
            RULE, "the NUMA nodes of the devices cannot be seen here (`npu-smi info -t topo` on the host)."
        )
        return
    nodes = sorted(set(place.device_nodes.values()))
    allowed = set(place.allowed_cores)
    near = [node for node in nodes if allowed & set(place.node_cores.get(node, ()))]
    near_memory = not place.allowed_nodes or bool(set(place.allowed_nodes) & set(nodes))
    if near and near_memory:
        return
    what = "cores" if not near else "memory"
    told = ", ".join(map(str, nodes))
    yield RULE.finding(
        f"The NPUs are at NUMA node {told}, and this process may use no {what} there.",
        evidence={"device_nodes": list(nodes), "allowed_cores": len(allowed)},
        why="Every copy and every launch crosses the link between the processors.",
        action=f"numactl --cpunodebind={nodes[0]} --membind={nodes[0]} COMMAND, or give the container such cores.",
    )
