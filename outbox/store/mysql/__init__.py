"""What MariaDB and MySQL do differently."""
