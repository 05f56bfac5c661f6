"""Commands that start servers on this machine, to try things out."""
