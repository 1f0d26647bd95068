"""What a device test decides: where its outcome goes, and the judgement on that."""
