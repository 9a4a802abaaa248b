"""Operations that MariaDB and MySQL do differently."""
