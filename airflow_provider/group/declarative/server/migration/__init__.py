"""Groups that have classic workers, too, or may have: bridges, and requests that wait for them."""
