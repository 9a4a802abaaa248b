"""What lives as long as the process: connections, publishing, the lease's thread, the end."""
