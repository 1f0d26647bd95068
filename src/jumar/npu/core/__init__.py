"""What every part of the emulated NPU reads: its state, plans of operators, devices, events, refusals."""
