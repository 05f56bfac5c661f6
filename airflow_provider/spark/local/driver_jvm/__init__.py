"""The JVM of this process: its end, its lease, its log, and whether it answers."""
