"""Searches: operators one by one, subgraphs and precision, and what they found."""
