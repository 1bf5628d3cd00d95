# What the commands of faults.yml may call: a tool of the same name put first on PATH, which answers some questions itself.
doctored=/usr/local/sbin

doctor() {
  real=$(PATH=/usr/bin:/usr/sbin:/bin:/sbin command -v "$1") || exit 1
  printf '#!/bin/sh\n# rackwright-fault\n%s\nexec %s "$@"\n' "$2" "$real" | sed "s/\$LAST_WORKER/$LAST_WORKER/" > "$doctored/$1.new"
  chmod 755 "$doctored/$1.new" && mv "$doctored/$1.new" "$doctored/$1"
}

undoctor() {
  grep -q rackwright-fault "$doctored/$1" && rm "$doctored/$1"
}

# The python3 of tasks of a job runs these words first; any other is the real one.
doctor_task() {
  cat > "$doctored/python3.new" <<X
#!/bin/sh
# rackwright-fault
[ -n "\$SLURM_PROCID" ] || exec /usr/bin/python3 "\$@"
code=\$4; shift 4
exec /usr/bin/python3 -I -S -c "$(printf %s "$1" | sed 's/"/\\"/g')
\$code" "\$@"
X
  chmod 755 "$doctored/python3.new" && mv "$doctored/python3.new" "$doctored/python3"
}

# Until the controller has heard of every node since it, or one of them, was started.
nodes_settle() {
  for _ in $(seq 200); do
    states=$(sinfo -h -N -o %T) && [ -n "$states" ] && ! echo "$states" | grep -q 'unknown\|[*]' && return
    sleep 0.3
  done
  echo "nodes do not settle: $states" >&2
  return 1
}

# Slurm confines jobs to some resources no more: unconfine RESOURCE…, as cgroup.conf(5) names them. `scontrol reconfigure` hands the file
# to every slurmd, which starts anew with it (slurmd(8); on releases before 23.11 it reads the file again).
unconfine() {
  cp -p /etc/slurm/cgroup.conf /run/cgroup.kept || return 1
  for resource in "$@"; do sed -i "s/^Constrain$resource=yes$/Constrain$resource=no/" /etc/slurm/cgroup.conf; done
  ! cmp -s /run/cgroup.kept /etc/slurm/cgroup.conf || { echo "cgroup.conf does not constrain $*" >&2; return 1; }
  scontrol reconfigure && nodes_settle
}

confine() {
  cat /run/cgroup.kept > /etc/slurm/cgroup.conf && rm /run/cgroup.kept && scontrol reconfigure && nodes_settle
}

# As the kubelet of this node, which may change its own node's and its own pods' status.
as_kubelet() {
  kubectl --kubeconfig=/etc/kubernetes/kubelet.conf "$@"
}

# Says as this node's kubelet what a status is: status_becomes PATH STATUS. kubectl would read it first, which a kubelet may not.
status_becomes() {
  python3 - "$(sed -n 's/ *server: //p' /etc/kubernetes/kubelet.conf)/api/v1/$1/status" "{\"status\":$2}" <<'X'
import ssl, sys, urllib.request
tls = ssl.create_default_context(cafile="/etc/kubernetes/pki/ca.crt")
tls.load_cert_chain("/var/lib/kubelet/pki/kubelet-client-current.pem")
kind = {"Content-Type": "application/strategic-merge-patch+json"}
urllib.request.urlopen(urllib.request.Request(sys.argv[1], sys.argv[2].encode(), kind, method="PATCH"), context=tls, timeout=10)
X
}

# The kubelet tells the API server its own mind every ten seconds: held still, it leaves there what somebody else says.
hold_kubelet() {
  systemctl kill -s STOP kubelet
}

release_kubelet() {
  systemctl kill -s CONT kubelet
  is_well kubelet 10248
}

# Until the API server has of this node's status what its kubelet says of it: node_says PATH VALUE.
node_says() {
  as_kubelet wait node "$NODE" "--for=jsonpath={.status.$1}=$2" --timeout=40s > /dev/null
}

# Until the API server has heard how many GPUs the last worker gives, which its kubelet tells every 10 s: last_worker_gives COUNT.
last_worker_gives() {
  kubectl wait node "$LAST_WORKER" "--for=jsonpath={.status.allocatable.nvidia\.com/gpu}=$1" --timeout=60s > /dev/null
}

# Until a daemon of this node answers on a port of its own.
is_well() {
  for _ in $(seq 100); do
    python3 -c "import urllib.request as r; r.urlopen('http://127.0.0.1:$2/healthz', timeout=2)" 2>/dev/null && return
    sleep 0.3
  done
  echo "$1 does not become well" >&2
  return 1
}

# Until a condition of this node has a status: node_condition TYPE STATUS.
node_condition() {
  for _ in $(seq 200); do
    said=$(as_kubelet get node "$NODE" -o "jsonpath={.status.conditions[?(@.type=='$1')].status}") && [ "$said" = "$2" ] && return
    sleep 0.5
  done
  echo "$1 is $said, not $2" >&2
  return 1
}

# Until this node, whose kubelet was started anew, is ready again, and its plugin has told its GPUs again.
kubelet_is_back() {
  is_well kubelet 10248 && node_condition Ready True || return 1
  for _ in $(seq 200); do
    told=$(as_kubelet get node "$NODE" -o 'jsonpath={.metadata.labels.nvidia\.com/gpu\.present} {.status.capacity.nvidia\.com/gpu}') || return 1
    case "$told" in " "* | "true $GPUS") return ;; esac
    sleep 0.3
  done
  echo "GPUs are not told again: $told" >&2
  return 1
}

# One more file of the kubelet's settings, which it then runs with.
kubelet_with() {
  printf 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n%s\n' "$1" > /etc/kubernetes/kubelet.conf.d/99-fault.conf
  systemctl restart kubelet && kubelet_is_back
}

kubelet_without() {
  rm /etc/kubernetes/kubelet.conf.d/99-fault.conf
  systemctl restart kubelet && kubelet_is_back
}

# Says that a pod of this node is not ready: pod_is_not_ready LABEL=VALUE.
pod_is_not_ready() {
  pod=$(as_kubelet -n kube-system get pods --field-selector "spec.nodeName=$NODE" -l "$1" -o jsonpath='{.items[0].metadata.name}') || return 1
  status_becomes "namespaces/kube-system/pods/$pod" '{"conditions":[{"type":"Ready","status":"False"}]}'
}

# Until its kubelet has said that it is: pod_is_ready LABEL=VALUE.
pod_is_ready() {
  as_kubelet -n kube-system wait pod --field-selector "spec.nodeName=$NODE" -l "$1" --for=condition=Ready --timeout=40s > /dev/null
}

# New connections from this node to an address are rejected, by the address that was asked for: reject_to ADDRESS [WHAT].
reject_to() {
  nft add table inet fault
  nft add chain inet fault output '{ type filter hook output priority 0; policy accept; }'
  nft add rule inet fault output ct state new ct original ip daddr "$1" ${2:-} reject
}

etcd_says() {
  etcdctl --endpoints=https://127.0.0.1:2379 --cacert=/etc/kubernetes/pki/etcd/ca.crt --cert=/etc/kubernetes/pki/etcd/healthcheck-client.crt \
    --key=/etc/kubernetes/pki/etcd/healthcheck-client.key "$@"
}

# Where a program that checks send answers one topic otherwise: doctor_topic TOPIC ANSWER.
doctor_topic() {
  doctor python3 "case \"\$*\" in *' $1') echo '$2'; exit;; esac"
}

# The runtime hands out containers that are not as they were ordered: the words see the specification as `spec`, its device files of GPUs as
# `gpus`, and may change both.
doctor_runtime() {
  cat > "$doctored/runc.new" <<X
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
  chmod 755 "$doctored/runc.new" && mv "$doctored/runc.new" "$doctored/runc"
}

# Packets that match are rejected, at a hook of netfilter; in `prerouting` by Linux 5.9 and later (nft(8), reject statement).
reject_packets() {
  printf 'table ip rackwright_fault {\n chain rejects {\n type filter hook %s;\n %s reject\n }\n}\n' "$1" "$2" | nft -f -
}

unreject_packets() {
  nft delete table ip rackwright_fault
}

# Starts the API server with more arguments, or without them again, and waits until it is the new one that answers.
doctor_api_server() {
  manifest=/etc/kubernetes/manifests/kube-apiserver.yaml
  before=$(pidof kube-apiserver) begun=$(date -u +%FT%T)
  [ -z "$1" ] && cp /run/kube-apiserver.kept $manifest || {
    cp $manifest /run/kube-apiserver.kept
    sed "s/^    - kube-apiserver\$/&\n    - $1/" /run/kube-apiserver.kept > /run/kube-apiserver.new && cp /run/kube-apiserver.new $manifest
  }
  for turn in $(seq 300); do
    # Those who lost their lease end, and a kubelet that saw them end often starts them again only minutes later; a new one at once.
    [ "$turn" = 60 ] && systemctl restart kubelet
    now=$(pidof kube-apiserver) && [ "$now" != "$before" ] && kubectl get --raw /readyz > /dev/null 2>&1 && controllers_lead "$begun" && {
      names_are_known
      return
    }
    sleep 0.3
  done
  echo "the API server does not come back" >&2
  return 1
}

# Whether scheduler and controller manager lead again since a moment: without them the API answers, and no pod is placed.
controllers_lead() {
  for one in kube-scheduler kube-controller-manager; do
    renewed=$(kubectl -n kube-system get lease $one -o 'jsonpath={.spec.renewTime}') && expr "$renewed" \> "$1" > /dev/null || return 1
  done
}

# Until every CoreDNS tells a service that is made only now: one that watched the old API server asks the new one after pauses that grow to a
# minute (client-go, tools/cache/reflector.go: 30 s and as much again by chance).
names_are_known() {
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
