"""An optimizer under amp: masters, unscaled gradients, averages over the ranks, skipped steps."""
