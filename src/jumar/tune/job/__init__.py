"""One run of `jumar tune`: its settings, the job itself and its result file."""
