"""Operations that take one statement on PostgreSQL and several on other databases."""
