"""What tools print, as data: a parser raises CouldNotTell where a text is cut short or is something else."""
