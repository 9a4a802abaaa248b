"""The database: connections, transactions, locks and what its errors mean."""
