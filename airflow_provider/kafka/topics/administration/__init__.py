"""Creates topics, checks them, and asks where they end."""
