"""What people do with a group day by day, as values: what is asked, who asks it, and what is written for it. Pure.

The command line, the hook and the operators ask (``topics/group_topics.py`` writes); nothing here knows which.
"""
