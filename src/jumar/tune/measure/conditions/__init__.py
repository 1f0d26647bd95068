"""What a run finds around it: settings of the environment, disk, memory, cores, other programs."""
