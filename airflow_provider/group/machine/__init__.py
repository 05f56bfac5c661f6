"""What the machines of all members have in common. Pure."""
