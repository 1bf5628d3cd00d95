#!/usr/bin/env bash
# The floor under `make up`: the same four nodes from the same image to `srun -N2 --gres=gpu:8`, with nothing but podman, ssh and shell.
#
# One SSH connection per node carries one script; nothing is queried first, compared, pinned, checked or reported. What rackwright
# adds is what it costs above this.
#
# usage: lab-floor.sh IMAGE SUBNET_PREFIX      (for example: lab-floor.sh localhost/rackwright/node-debian-13:… 10.188.0)
set -euo pipefail
image=$1 net=$2
name=floor-$$
work=$(mktemp -d)
declare -A address=([login0]="$net.16" [storage0]="$net.17" [worker0]="$net.18" [worker1]="$net.19")
nodes=(login0 storage0 worker0 worker1)

clean() {
  podman rm --force --time 0 "${nodes[@]/#/$name-}" >/dev/null 2>&1 || true
  podman network rm --force "$name" >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap clean EXIT
cd "$work"

begin=$(date +%s%N)
stage() { printf '%-12s %6.2f\n' "$1" "$(($(date +%s%N) - begin))e-9"; }

ssh-keygen -q -t ed25519 -N '' -f key
podman network create --subnet "$net.0/24" --label "rackwright.stack=$name" "$name" >/dev/null
runtime=()
[ -e /sys/fs/cgroup/cgroup.controllers ] || runtime=(--runtime runc)
start() {
  podman "${runtime[@]}" run --detach --name "$name-$1" --hostname "$1" --no-hosts --label "rackwright.stack=$name" \
    --network "$name" --ip "${address[$1]}" --systemd=always --ulimit nofile=20000:20000 --ulimit nproc=32768:32768 \
    --device /dev/fuse --cap-add SYS_ADMIN,NET_ADMIN,MKNOD --device-cgroup-rule 'c 61:* rwm' "$image" /sbin/init >/dev/null
  podman exec --interactive "$name-$1" sh -c 'mkdir -p -m 700 /root/.ssh && cat > /root/.ssh/authorized_keys && ssh-keygen -q -t ed25519 -N "" -f /etc/ssh/ssh_host_ed25519_key &&
    until systemctl start ssh 2>/dev/null; do sleep 0.05; done' < key.pub
}
for node in "${nodes[@]}"; do start "$node" & done
wait
stage containers

head -c 1024 /dev/urandom > munge.key
hosts=$(for node in "${nodes[@]}"; do echo "${address[$node]} $node"; done)
cat > slurm.conf <<'CONF'
ClusterName=floor
SlurmctldHost=login0
SlurmUser=slurm
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
GresTypes=gpu
ReturnToService=2
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=login0
NodeName=worker[0-1] CPUs=8 RealMemory=2048 Gres=gpu:h100:8 State=UNKNOWN
PartitionName=gpu Nodes=ALL Default=YES State=UP
CONF
everywhere() {
  printf 'printf "%%s\\n" "%s" >> /etc/hosts\n' "$hosts"
  printf 'echo %s | base64 -d > /etc/munge/munge.key\n' "$(base64 -w0 munge.key)"
  printf 'cat > /etc/slurm/slurm.conf <<X\n%s\nX\n' "$(cat slurm.conf)"
  cat <<'NODE'
chown munge:munge /etc/munge/munge.key && chmod 400 /etc/munge/munge.key
mkdir -p /etc/slurm /var/lib/slurm/slurmctld /var/lib/slurm/slurmd && chown -R slurm:slurm /var/lib/slurm
echo 'NodeName=worker[0-1] Name=gpu Type=h100 File=/dev/nvidia[0-7]' > /etc/slurm/gres.conf
echo CgroupPlugin=disabled > /etc/slurm/cgroup.conf
systemctl unmask munge slurmctld slurmd slurmdbd 2>/dev/null
systemctl start munge
NODE
}
mount_storage='mkdir -p /mnt/sharedfs; until mfsmount /mnt/sharedfs -H storage0 >/dev/null 2>&1; do sleep 0.1; done'
login() {
  everywhere
  cat <<'NODE'
printf 'AuthType=auth/munge\nDbdHost=login0\nSlurmUser=slurm\nStorageType=accounting_storage/mysql\nStoragePass=floor\nStorageUser=slurm\nStorageLoc=slurm_acct_db\n' > /etc/slurm/slurmdbd.conf
chown slurm:slurm /etc/slurm/slurmdbd.conf && chmod 600 /etc/slurm/slurmdbd.conf
systemctl start mariadb
mariadb -e "create database slurm_acct_db; create user slurm@localhost identified by 'floor'; grant all on slurm_acct_db.* to slurm@localhost"
systemctl start slurmdbd
until sacctmgr --noheader show cluster >/dev/null 2>&1; do sleep 0.1; done
sacctmgr --immediate --quiet add cluster floor >/dev/null 2>&1 || true
systemctl start slurmctld
NODE
  echo "$mount_storage"
}
worker() {
  everywhere
  # shellcheck disable=SC2016  # expanded on the node
  echo 'for i in 0 1 2 3 4 5 6 7; do mknod -m 666 /dev/nvidia$i c 61 $i; done; systemctl start slurmd'
  echo "$mount_storage"
}
storage() {
  everywhere
  cat <<'NODE'
cp /usr/share/doc/moosefs-master/examples/*.cfg /usr/share/doc/moosefs-chunkserver/examples/*.cfg /etc/mfs/ 2>/dev/null
cp -p /var/lib/mfs/metadata.mfs.empty /var/lib/mfs/metadata.mfs
mkdir -p /srv/chunks && chown mfs:mfs /srv/chunks && echo '/srv/chunks 5GiB' > /etc/mfs/mfshdd.cfg
echo 'MASTER_HOST = storage0' >> /etc/mfs/mfschunkserver.cfg && echo '* / rw,alldirs,maproot=0' > /etc/mfs/mfsexports.cfg
systemctl unmask moosefs-master moosefs-chunkserver 2>/dev/null
systemctl start moosefs-master moosefs-chunkserver
NODE
  echo "$mount_storage"
}
connect() { ssh -i key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o ConnectTimeout=2 "root@${address[$1]}" "$2"; }
apply() {
  until connect "$1" true 2>/dev/null; do sleep 0.1; done
  "${1%[0-9]}" | connect "$1" 'bash -s' > "$1.log" 2>&1 || true
}
for node in "${nodes[@]}"; do apply "$node" & done
wait
stage configured

for _ in $(seq 200); do
  connect login0 'srun -N2 --gres=gpu:8 hostname' > srun.log 2>&1 && break
  sleep 0.1
done
sort srun.log | paste -sd' '
grep -q worker1 srun.log || { cat ./*.log >&2; exit 1; }
stage srun
