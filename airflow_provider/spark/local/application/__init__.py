"""The one Spark application of this process: how it starts, with which settings, and whether it is still there."""
