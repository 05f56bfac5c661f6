"""Checks and renders the parameters of operators and sensors."""
