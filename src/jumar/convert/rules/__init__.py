"""The conversion rules, one a file in a folder for each group; `order` says which run, and when."""
