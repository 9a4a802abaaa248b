"""What the dashboard's pages show, on PostgreSQL: each page in few statements that read little."""
