"""What the page shows, as values: computed from snapshots of a group, and sent to a browser. Pure."""
