"""The routes of the page: what they answer, show and do."""
