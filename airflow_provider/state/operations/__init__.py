"""What people do with a group day by day, as values: the operation, who asks for it, and the records to write. Pure.

The command line, the hook and the operators use it, and ``kafka/topics/topic_writer.py`` writes the records.
"""
