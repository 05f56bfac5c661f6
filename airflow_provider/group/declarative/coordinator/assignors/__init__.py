"""Which assignor computes a group's target, where, and from what."""
