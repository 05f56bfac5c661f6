"""What a group's topics say, what follows from it, and what people do to it. Pure."""
