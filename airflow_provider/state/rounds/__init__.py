"""What a round leaves behind, in any group protocol: its record and its cause."""
