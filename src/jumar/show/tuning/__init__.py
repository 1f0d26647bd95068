"""The pages of a tuning run: what is faster and how sure, how the search went, where the time went."""
