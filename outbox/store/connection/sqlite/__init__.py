"""What a connection to SQLite needs: its one write lock, and its databases in memory."""
