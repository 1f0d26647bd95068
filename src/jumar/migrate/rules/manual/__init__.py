"""Opt-in rules for the migration guide's manual steps."""

from __future__ import annotations

from types import ModuleType

from jumar.migrate.rules.manual import (
    anomaly_detection_on,
    apex_amp,
    apex_gradients_apart,
    batch_copy_blocks,
    checkpoint_without_scaler,
    compile_mode_unset,
    device_never_set,
    loader_does_not_pin,
    loader_keeps_partial_batch,
    loss_target_int64,
    optimizer_not_fused,
    shape_varies,
    state_dict_prefix,
    training_without_autocast,
    training_without_loss_scale,
)

MODULES: tuple[ModuleType, ...] = (
    loss_target_int64,
    loader_keeps_partial_batch,
    loader_does_not_pin,
    batch_copy_blocks,
    apex_amp,
    apex_gradients_apart,
    training_without_loss_scale,
    training_without_autocast,
    optimizer_not_fused,
    device_never_set,
    compile_mode_unset,
    checkpoint_without_scaler,
    state_dict_prefix,
    shape_varies,
    anomaly_detection_on,
)
"""Modules with a `RULE` and a `check`, in the order they run."""
