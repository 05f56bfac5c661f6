"""Streaming queries: their progress, how far they are behind, and rehearsals on copies of their checkpoints."""
