"""Measuring on many machines: trials go to Ray workers on machines of one kind, one at a time on each.

`--cluster ray://host:port` joins a cluster, `--cluster local` starts one on this machine. The driver keeps the bank,
the job file and the budget; workers only measure. Ray comes with the extra `jumar[cluster]`.
"""

from __future__ import annotations

from jumar.tune.measure.cluster.runner import Cluster

__all__ = ["Cluster"]
