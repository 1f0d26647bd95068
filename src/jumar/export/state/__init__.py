"""What a checkpoint holds beside the weights: optimizer, scheduler, scaler, counters."""
