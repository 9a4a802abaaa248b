"""The database: connections, transactions, locks, and the meaning of its errors."""
