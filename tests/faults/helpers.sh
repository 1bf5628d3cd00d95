# Helpers of the commands in checks.yml: fake_tool installs a tool at the front of PATH that replaces some results of the real one.
fakes=/usr/local/sbin

fake_tool() {
  real=$(PATH=/usr/bin:/usr/sbin:/bin:/sbin:/usr/local/cuda/bin command -v "$1") || exit 1
  printf '#!/bin/sh\n# rackwright-fault\n%s\nexec %s "$@"\n' "$2" "$real" | sed "s/\$LAST_WORKER/$LAST_WORKER/" > "$fakes/$1.new"
  chmod 755 "$fakes/$1.new" && mv "$fakes/$1.new" "$fakes/$1"
}

remove_fake() {
  grep -q rackwright-fault "$fakes/$1" && rm "$fakes/$1"
}

# Make the python3 of job tasks run code before its program; outside of jobs the real python3 runs.
fake_task() {
  cat > "$fakes/python3.new" <<X
#!/bin/sh
# rackwright-fault
[ -n "\$SLURM_PROCID" ] || exec /usr/bin/python3 "\$@"
code=\$4; shift 4
exec /usr/bin/python3 -I -S -c "$(printf %s "$1" | sed 's/"/\\"/g')
\$code" "\$@"
X
  chmod 755 "$fakes/python3.new" && mv "$fakes/python3.new" "$fakes/python3"
}

# Wait until every node has registered with the controller: it queries a node that is down every third of SlurmdTimeout (slurm.conf(5)),
# which is 100 s, and a busy machine is slower.
wait_for_nodes() {
  for _ in $(seq 1000); do
    states=$(sinfo -h -N -o %T) && [ -n "$states" ] && ! echo "$states" | grep -q 'unknown\|[*]' && return
    sleep 0.3
  done
  echo "nodes do not settle: $states" >&2
  return 1
}

# Stop Slurm from confining jobs to resources: unconfine RESOURCE…, as cgroup.conf(5) names them. `scontrol reconfigure` sends the file to
# every slurmd, which restarts with it (slurmd(8); releases before 23.11 read the file again).
unconfine() {
  cp -p /etc/slurm/cgroup.conf /run/cgroup.kept || return 1
  for resource in "$@"; do sed -i "s/^Constrain$resource=yes$/Constrain$resource=no/" /etc/slurm/cgroup.conf; done
  ! cmp -s /run/cgroup.kept /etc/slurm/cgroup.conf || { echo "cgroup.conf does not constrain $*" >&2; return 1; }
  scontrol reconfigure && nodes_settle
}

confine() {
  cat /run/cgroup.kept > /etc/slurm/cgroup.conf && rm /run/cgroup.kept && scontrol reconfigure && nodes_settle
}

# Run kubectl as the kubelet of this node, which may change the status of its own node and its own pods.
as_kubelet() {
  kubectl --kubeconfig=/etc/kubernetes/kubelet.conf "$@"
}

# Patch a status as this node's kubelet: patch_status PATH STATUS. kubectl would read the object first, which a kubelet may not.
patch_status() {
  python3 - "$(sed -n 's/ *server: //p' /etc/kubernetes/kubelet.conf)/api/v1/$1/status" "{\"status\":$2}" <<'X'
import ssl, sys, urllib.request
tls = ssl.create_default_context(cafile="/etc/kubernetes/pki/ca.crt")
tls.load_cert_chain("/var/lib/kubelet/pki/kubelet-client-current.pem")
kind = {"Content-Type": "application/strategic-merge-patch+json"}
urllib.request.urlopen(urllib.request.Request(sys.argv[1], sys.argv[2].encode(), kind, method="PATCH"), context=tls, timeout=10)
X
}

# The kubelet reports its status every ten seconds. A paused kubelet does not overwrite a patched status.
pause_kubelet() {
  systemctl kill -s STOP kubelet
}

resume_kubelet() {
  systemctl kill -s CONT kubelet
  wait_for_healthz kubelet 10248
}

# Wait until the API server has a value in this node's status: wait_for_node_status PATH VALUE.
wait_for_node_status() {
  as_kubelet wait node "$NODE" "--for=jsonpath={.status.$1}=$2" --timeout=40s > /dev/null
}

# Wait until the last worker has a number of allocatable GPUs, which its kubelet reports every 10 s: wait_for_worker_gpus COUNT.
wait_for_worker_gpus() {
  kubectl wait node "$LAST_WORKER" "--for=jsonpath={.status.allocatable.nvidia\.com/gpu}=$1" --timeout=60s > /dev/null
}

# Wait until /healthz of a daemon of this node responds: wait_for_healthz NAME PORT.
wait_for_healthz() {
  for _ in $(seq 100); do
    python3 -c "import urllib.request as r; r.urlopen('http://127.0.0.1:$2/healthz', timeout=2)" 2>/dev/null && return
    sleep 0.3
  done
  echo "$1 does not become well" >&2
  return 1
}

# Wait until a condition of this node has a status: wait_for_node_condition TYPE STATUS.
wait_for_node_condition() {
  for _ in $(seq 200); do
    said=$(as_kubelet get node "$NODE" -o "jsonpath={.status.conditions[?(@.type=='$1')].status}") && [ "$said" = "$2" ] && return
    sleep 0.5
  done
  echo "$1 is $said, not $2" >&2
  return 1
}

# Wait until this node is ready after a restart of its kubelet, and its plugin has registered the GPUs.
wait_for_kubelet() {
  wait_for_healthz kubelet 10248 && wait_for_node_condition Ready True || return 1
  for _ in $(seq 200); do
    told=$(as_kubelet get node "$NODE" -o 'jsonpath={.metadata.labels.nvidia\.com/gpu\.present} {.status.capacity.nvidia\.com/gpu}') || return 1
    case "$told" in " "* | "true $GPUS") return ;; esac
    sleep 0.3
  done
  echo "GPUs are not told again: $told" >&2
  return 1
}

# Add a file to the kubelet's settings and restart the kubelet.
kubelet_with() {
  printf 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n%s\n' "$1" > /etc/kubernetes/kubelet.conf.d/99-fault.conf
  systemctl restart kubelet && wait_for_kubelet
}

kubelet_without() {
  rm /etc/kubernetes/kubelet.conf.d/99-fault.conf
  systemctl restart kubelet && wait_for_kubelet
}

# Mark a pod of this node as not ready: mark_pod_unready LABEL=VALUE.
mark_pod_unready() {
  pod=$(as_kubelet -n kube-system get pods --field-selector "spec.nodeName=$NODE" -l "$1" -o jsonpath='{.items[0].metadata.name}') || return 1
  patch_status "namespaces/kube-system/pods/$pod" '{"conditions":[{"type":"Ready","status":"False"}]}'
}

# Wait until the kubelet has reported the pod as ready: wait_for_ready_pod LABEL=VALUE.
wait_for_ready_pod() {
  as_kubelet -n kube-system wait pod --field-selector "spec.nodeName=$NODE" -l "$1" --for=condition=Ready --timeout=40s > /dev/null
}

# Reject new connections from this node by their original destination address: reject_to ADDRESS [MATCH].
reject_to() {
  nft add table inet fault
  nft add chain inet fault output '{ type filter hook output priority 0; policy accept; }'
  nft add rule inet fault output ct state new ct original ip daddr "$1" ${2:-} reject
}

run_etcdctl() {
  etcdctl --endpoints=https://127.0.0.1:2379 --cacert=/etc/kubernetes/pki/etcd/ca.crt --cert=/etc/kubernetes/pki/etcd/healthcheck-client.crt \
    --key=/etc/kubernetes/pki/etcd/healthcheck-client.key "$@"
}

# Replace the result of one topic of a program that checks send: fake_topic TOPIC RESULT.
fake_topic() {
  fake_tool python3 "case \"\$*\" in *'{\"topic\": \"$1\"'*) echo '$2'; exit;; esac"
}

# Make the runtime change containers before their creation: the code may change the specification `spec` and its GPU device files `gpus`.
fake_runtime() {
  cat > "$fakes/runc.new" <<X
#!/bin/sh
# rackwright-fault
case " \$* " in *" create "*) /usr/bin/python3 -I -S - "\$@" <<'P' ;; esac
import json, os, sys
path = os.path.join(sys.argv[sys.argv.index("--bundle") + 1], "config.json")
spec = json.load(open(path))
devices = spec["linux"].setdefault("devices", [])
gpus = [one for one in devices if one["path"].startswith("/dev/nvidia")]
others = [one for one in devices if one not in gpus]
words = spec["process"]["args"]
if words[0].endswith("probe"):
    $1
    spec["linux"]["devices"] = others + gpus
    json.dump(spec, open(path, "w"))
P
exec /usr/sbin/runc "\$@"
X
  chmod 755 "$fakes/runc.new" && mv "$fakes/runc.new" "$fakes/runc"
}

# Reject matching packets at a hook of netfilter; in `prerouting` by Linux 5.9 and later (nft(8)): reject_packets HOOK MATCH.
reject_packets() {
  printf 'table ip rackwright_fault {\n chain rejects {\n type filter hook %s;\n %s reject\n }\n}\n' "$1" "$2" | nft -f -
}

unreject_packets() {
  nft delete table ip rackwright_fault
}

# Restart the API server with an added argument, or without it (empty), and wait until the new process responds.
restart_api_server() {
  manifest=/etc/kubernetes/manifests/kube-apiserver.yaml
  before=$(pidof kube-apiserver) begun=$(date -u +%FT%T)
  [ -z "$1" ] && cp /run/kube-apiserver.kept $manifest || {
    cp $manifest /run/kube-apiserver.kept
    sed "s/^    - kube-apiserver\$/&\n    - $1/" /run/kube-apiserver.kept > /run/kube-apiserver.new && cp /run/kube-apiserver.new $manifest
  }
  for turn in $(seq 300); do
    # Daemons that lose their lease exit. The kubelet restarts them only after minutes of back-off; a restarted kubelet does so at once.
    [ "$turn" = 60 ] && systemctl restart kubelet
    now=$(pidof kube-apiserver) && [ "$now" != "$before" ] && kubectl get --raw /readyz > /dev/null 2>&1 && controllers_hold_leases "$begun" && {
      wait_for_dns
      return
    }
    sleep 0.3
  done
  echo "the API server does not come back" >&2
  return 1
}

# Succeed if scheduler and controller manager have renewed their leases since a time: without them the API responds, and no pod is placed.
controllers_hold_leases() {
  for one in kube-scheduler kube-controller-manager; do
    renewed=$(kubectl -n kube-system get lease $one -o 'jsonpath={.spec.renewTime}') && expr "$renewed" \> "$1" > /dev/null || return 1
  done
}

# Wait until every CoreDNS resolves a new service: one that watched the old API server reconnects after pauses of up to a minute
# (client-go, tools/cache/reflector.go: 30 s plus as much jitter).
wait_for_dns() {
  kubectl -n default create service clusterip rackwright-fault --tcp=1 > /dev/null || return 1
  servers=$(kubectl -n kube-system get pods -l k8s-app=kube-dns --field-selector status.phase=Running -o 'jsonpath={.items[*].status.podIP}')
  python3 -I -S -c "$ASKING_NAMES
import sys, time
until, name, servers = time.monotonic() + float(sys.argv[1]), sys.argv[2], sys.argv[3:]
while not servers or not all(ask(server, name) for server in servers):
    if not servers or time.monotonic() > until:
        sys.exit('CoreDNS does not tell a new service: asked ' + (', '.join(servers) or 'none, because none runs'))
    time.sleep(0.3)" 90 rackwright-fault.default.svc.cluster.local $servers
  told=$?
  kubectl -n default delete service rackwright-fault > /dev/null && return $told
}
