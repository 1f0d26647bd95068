"""What beside the profiler is noted of a run: pauses, compiles, the host, where its steps end."""
