"""Job type 4: a training's gradients and its all-reduce measured, the split solved, and measured against DDP's own."""
