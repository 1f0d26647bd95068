"""Pages and terminal texts of comparisons, overflow reports, replays and bisections."""
