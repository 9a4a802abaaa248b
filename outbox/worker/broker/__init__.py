"""What goes over the broker: the tasks, their messages and queues, and a lost connection."""
