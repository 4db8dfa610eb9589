"""A law in other people's languages: one file for each."""
