"""Opt-in rules for the migration guide's manual steps."""
