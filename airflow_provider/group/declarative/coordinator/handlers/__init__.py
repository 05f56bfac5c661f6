"""How each request is handled: checked, carried out, and answered."""
