"""What the commands print: lines for people, and JSON for scripts."""
