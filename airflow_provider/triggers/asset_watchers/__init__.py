"""The events of a group for asset watchers, and how far these have been told."""
