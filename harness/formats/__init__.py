"""A report in the forms that people and programs read."""
