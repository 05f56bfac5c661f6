"""The calls to a server about queries and sessions, over gRPC, and their messages as bytes."""
