"""Pages and terminal texts of the rooms that need one file each."""
