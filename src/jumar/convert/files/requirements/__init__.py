"""Lists of packages: requirement files and the lines in them."""
