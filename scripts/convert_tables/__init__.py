"""What `build_convert_tables.py` is made of: the examples of the rules, converted, and the tables."""
