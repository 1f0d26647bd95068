"""What the files of a project know of each other: names passed on, and device words that must change together."""
