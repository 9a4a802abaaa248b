"""What `check` and `health` examine: a file for each subject."""
