"""The bank's database: where it lies, its tables and rows."""
