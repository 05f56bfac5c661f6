"""Who may see and do what: rights, the connections of a visit, and refused actions."""
