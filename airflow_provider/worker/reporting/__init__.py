"""What a worker tells others: its own record, the records that it writes, its log, and its metrics."""
