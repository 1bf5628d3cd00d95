# What a no-change converge has to look at on one node, as one plain script: files, units, users, mounts, firewall, scheduler.
# Read by `sh -s` over one SSH connection per node; the floor of a no-change converge.
sha256sum /etc/hosts /etc/timezone /etc/ssh/sshd_config.d/* /etc/nftables.conf /etc/munge/munge.key /etc/slurm/* /etc/mfs/* /etc/sudoers.d/* \
  /etc/systemd/journald.conf.d/* /etc/systemd/system/*.service /etc/systemd/system/*/*.conf 2>/dev/null | sha256sum
systemctl show --property=Id,ActiveState,UnitFileState,InvocationID ssh nftables munge slurmd slurmctld slurmdbd mariadb moosefs-master \
  moosefs-chunkserver systemd-journald | sha256sum
getent passwd | sha256sum
findmnt --real --noheadings | sha256sum
nft list ruleset | sha256sum
test -x /usr/local/bin/sminfo && sminfo 2>/dev/null | sha256sum
ls -l /dev/nvidia* 2>/dev/null | sha256sum
command -v sinfo >/dev/null && sinfo --noheader --Node --format '%N %T' 2>/dev/null | sha256sum
true
