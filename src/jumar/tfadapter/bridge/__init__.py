"""`npu_bridge` and `npu_device` on the CPU, for scripts that `jumar run` starts."""
