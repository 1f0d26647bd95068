"""Functions that several custom operators share."""
