"""Shares out work: by number, by cost, in proportion to slots."""
