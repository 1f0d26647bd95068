"""Pages of what the doctor knows: entries, variables, operators of plogs, the cause of a failed run."""
