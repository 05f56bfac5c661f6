"""The coordinator of declarative groups (KIP-848), as a machine: requests go in, records and replies come out.

:mod:`.coordinator` is the whole of one shard, :mod:`.state` what it keeps of a group. It has no clock and does no I/O.
"""
