"""What the page shows, as values: snapshots of a group go in, what is sent to a browser comes out. Pure."""
