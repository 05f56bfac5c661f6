"""Pure: which task ends Spark, or its worker's process, and when tasks start again after that."""
