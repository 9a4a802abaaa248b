"""What is killed, where, and what is counted afterwards."""
