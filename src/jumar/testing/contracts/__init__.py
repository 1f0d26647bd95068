"""The contracts of the eight kinds of parts, one kind a file. Each is a class of tests to derive from."""
