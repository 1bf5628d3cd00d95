"""Resources of target `hosts`: machines that exist already."""
