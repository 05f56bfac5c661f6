"""How a worker's run in a process ends: why, what comes next, what is handed over, and how it leaves its group."""
