"""The terms of tuning: tasks, policies, machines and the gate, and what a tuning process asks of its host."""
