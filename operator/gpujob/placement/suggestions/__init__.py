"""The nearest fix for a job that does not fit: proposals, their search and their wording."""
