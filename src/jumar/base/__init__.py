"""What every room uses: errors, findings, rules, text, files, the host."""
