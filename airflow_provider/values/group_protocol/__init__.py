"""What members of a group and its coordinator agree on."""
