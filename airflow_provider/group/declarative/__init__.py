"""Groups that a coordinator moves towards a target (KIP-848)."""
