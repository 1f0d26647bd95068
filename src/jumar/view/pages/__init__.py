"""What each page of the workbench holds, apart from HTTP: `Answer`."""
