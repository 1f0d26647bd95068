"""What a conversion is made of: options, texts, edits, facts of a project, outcomes."""
