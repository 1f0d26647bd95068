"""Rules of the machine before a run, one file each; each judges `Conditions`."""
