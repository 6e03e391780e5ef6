"""Tables, pages and JSON of the command line."""
