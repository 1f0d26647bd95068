"""What to mend: the bottlenecks of a recording, and the faults of a machine and of its logs."""
