"""Collectives: the vendor's own cost model of a level of p devices (github.com/hicann/ge, hccl_engine).

    time = size · X / (bandwidth · ports) + N · (transfer + port synchronisation) + fixed + jitter

Ring within a server: N = 2(p - 1), X = 2(p - 1) / p for an all-reduce. Between servers halving-doubling:
N = 2⌈log2 p⌉. Sizes in MiB, bandwidth in GB/s, times in milliseconds. The levels' times add up. Its figures
are the first generation's (14 GB/s on 4 ports within a server, 10 GB/s between); for other chips they are assumed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SERVER_SIZE = 8
"""Devices of one server."""


@dataclass(frozen=True, slots=True)
class _Level:
    bandwidth: float
    ports: int
    transfer_ms: float
    port_ms: float
    jitter_ms: float
    planes: int


_WITHIN = _Level(14.0, 4, 0.001, 0.009, 0.1, 1)
_BETWEEN = _Level(10.0, 1, 0.015, 0.0, 1.0, 8)

_SHARE = {"allReduce": 1.0, "allGather": 0.5, "reduceScatter": 0.5, "alltoallv": 0.5, "broadcast": 0.5, "reduce": 0.5}
"""What a collective moves relative to an all-reduce, which is a reduce-scatter and an all-gather."""


def collective_us(kind: str, num_bytes: int, num_ranks: int) -> float:
    """Return the time of a collective of `num_bytes` on each of `num_ranks` devices, in microseconds."""
    if num_ranks < 2:
        return 0.0
    if kind in ("send", "receive"):
        return 1e3 * (num_bytes / 2**20 / (_WITHIN.bandwidth * _WITHIN.ports) + _WITHIN.transfer_ms + _WITHIN.port_ms)
    share = _SHARE.get(kind, 1.0)
    size = num_bytes / 2**20
    within = min(num_ranks, SERVER_SIZE)
    servers = math.ceil(num_ranks / SERVER_SIZE)
    time = _level_ms(_WITHIN, size, within, 2 * (within - 1), share)
    if servers > 1:
        time += _level_ms(_BETWEEN, size, servers, 2 * math.ceil(math.log2(servers)), share)
    return 1e3 * time


def _level_ms(level: _Level, size: float, members: int, rounds: int, share: float) -> float:
    if members < 2:
        return 0.0
    moved = 2 * (members - 1) / members * share
    fixed = 5e-4 * rounds + 4e-4 * (level.ports - 1)
    synchronisation = rounds * share * (level.transfer_ms + level.port_ms)
    return size / level.planes * moved / (level.bandwidth * level.ports) + synchronisation + fixed + level.jitter_ms
