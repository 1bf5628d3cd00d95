"""Resources of target `vm`: processes, disks and folders on this machine."""
