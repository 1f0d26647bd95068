"""One module a kind of result: each tells from names and first bytes what is its own, and describes it."""
