"""What is tuned: tasks from recordings, models and descriptions."""
