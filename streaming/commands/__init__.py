"""The commands of `motet`, a file for each group: arguments, and what they run."""
