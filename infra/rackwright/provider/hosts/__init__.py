"""Resources of target `hosts`: existing machines."""
