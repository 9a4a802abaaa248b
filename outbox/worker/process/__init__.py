"""What lives as long as a worker process: its connections, publishing, threads and shutdown."""
