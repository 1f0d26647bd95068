"""Training scripts with planted faults: the mistakes that an engineer makes who ports a script."""
