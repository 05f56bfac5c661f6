"""What commands have in common: arguments, how they read a group, and what they say."""
