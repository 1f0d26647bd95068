"""Pages of the doctor: logs, machines, what is known, what was changed or packed."""
