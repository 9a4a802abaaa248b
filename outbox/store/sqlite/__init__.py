"""Operations that SQLite does differently."""
