"""`apex.parallel`: PyTorch's own wrappers under apex's names."""

from __future__ import annotations

from jumar.amp.apex.parallel import DistributedDataParallel, Reducer, SyncBatchNorm, convert_syncbn_model

__all__ = ["DistributedDataParallel", "Reducer", "SyncBatchNorm", "convert_syncbn_model"]
