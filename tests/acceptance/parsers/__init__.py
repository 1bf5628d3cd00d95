"""What tools print, as data. A parser raises CouldNotTell for text that is cut short or not the tool's: half an answer is no answer."""
