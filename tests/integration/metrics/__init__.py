"""What a monitor is told: the metrics, the page at which it asks, and the files that it reads."""
