"""The rule that applies the rules of a file given with `-r`."""
