"""What lives as long as a worker process: its connections, threads and shutdown."""
