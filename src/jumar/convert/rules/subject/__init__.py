"""What the rules look at: the `Context` of a source, and readers of it that several groups of rules share."""
