"""The coordinator of declarative groups (KIP-848), as a state machine: events in, records and replies out.

:mod:`.coordinator` is the entry point, for one shard; :mod:`.group_state` is the state of a group. There is no clock
and no I/O.
"""
