"""What becomes of a connection's settings: TLS, settings of each client, warnings of unsafe ones."""
