"""The leases of this process's batches: renewed together, and each a fence of its own."""
