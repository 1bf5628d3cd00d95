#!/usr/bin/env bash
# The floor under `up` of a stack with Kubernetes: three nodes from the same image to GPUs that can be asked for, with podman and shell.
#
# One `podman exec` per node carries one script; nothing is queried first, compared, pinned, checked or reported.
#
# usage: kubernetes-floor.sh IMAGE SUBNET_PREFIX      (for example: kubernetes-floor.sh localhost/rackwright/node-debian-13-kubernetes:… 10.188.0)
set -euo pipefail
image=$1 net=$2
name=floor-$$
sysctls=$(cat "$(dirname "$0")/../roles/kubernetes/files/own-sysctls")
declare -A number=([login0]=16 [worker0]=17 [worker1]=18)
nodes=(login0 worker0 worker1)
pods=10.198 services=10.197.0.0/16

clean() {
  podman rm --force --time 0 --volumes "${nodes[@]/#/$name-}" >/dev/null 2>&1 || true
  podman network rm --force "$name" >/dev/null 2>&1 || true
}
trap clean EXIT

begin=$(date +%s%N)
stage() { printf '%-12s %6.2f\n' "$1" "$(($(date +%s%N) - begin))e-9"; }
on() { podman exec --interactive "$name-$1" bash -euo pipefail -s; }

podman network create --subnet "$net.0/24" --label "rackwright.stack=$name" "$name" >/dev/null
runtime=() hierarchy=true ignored=HTTPProxyCIDR
# kubeadm >= 1.35 refuses cgroup v1 in SystemVerification, also where the kubelet has failCgroupV1: false.
[ -e /sys/fs/cgroup/cgroup.controllers ] || { runtime=(--runtime runc) hierarchy='umount -l /sys/fs/cgroup/systemd' ignored+=,SystemVerification; }
# Kernel settings are the machine's, and a privileged node's systemd would write them: all but the network's are read only.
keep='mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys &&
  mount --bind /proc/sys/net /proc/sys/net && mount -o remount,bind,rw /proc/sys/net'
start() { # Volumes without a name go with their container.
  podman "${runtime[@]}" run --detach --name "$name-$1" --hostname "$1" --http-proxy=false --label "rackwright.stack=$name" \
    --network "$name" --ip "$net.${number[$1]}" --systemd=always --stop-signal SIGRTMIN+3 --privileged --cgroupns=private \
    --ulimit nofile=20000:20000 --ulimit nproc=32768:32768 \
    --volume /var/lib/containerd --volume /var/lib/kubelet --volume /var/lib/etcd "$image" \
    /bin/sh -c "$keep; $hierarchy; exec /sbin/init" >/dev/null
  until podman exec "$name-$1" systemctl show-environment >/dev/null 2>&1; do sleep 0.1; done
}
for node in "${nodes[@]}"; do start "$node" & done
wait
stage containers

configuration() { # of the kubelet, as far as it is not kubeadm's default
  cat <<'YAML'
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
failCgroupV1: false
failSwapOn: false
maxOpenFiles: 20000
oomScoreAdj: 0
imageGCHighThresholdPercent: 100
evictionHard: {nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
YAML
}
prepare() {
  local own=${number[$1]}
  printf 'cat > /usr/local/sbin/own-sysctls <<"X"\n%s\nX\nchmod 755 /usr/local/sbin/own-sysctls\n' "$sysctls"
  printf 'own=%s net=%s pods=%s others="%s"\n' "$own" "$net" "$pods" "${number[*]}"
  cat <<'NODE'
pause=$(tar -xOf /opt/rackwright/kubernetes/images/node.tar index.json | grep -o -m 1 'registry.k8s.io/pause:[0-9.]*' | head -n 1)
mkdir -p /etc/cni/net.d /etc/containerd /etc/kubernetes/manifests /etc/systemd/system/kubelet.service.d /var/lib/rackwright
cat > /etc/containerd/config.toml <<X
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$pause"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = true
X
cat > /etc/cni/net.d/10-floor.conflist <<X
{"cniVersion":"0.4.0","name":"floor","plugins":[{"type":"bridge","bridge":"cni0","isGateway":true,"ipMasq":false,"hairpinMode":true,
 "ipam":{"type":"host-local","ranges":[[{"subnet":"$pods.$own.0/24"}]],"routes":[{"dst":"0.0.0.0/0"}]}}]}
X
cat > /etc/systemd/system/kubelet.service <<'X'
[Service]
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStartPre=/usr/local/sbin/own-sysctls
ExecStart=/usr/bin/kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
X
sysctl -q -w net.ipv4.ip_forward=1
for other in $others; do [ "$other" = "$own" ] || ip route replace "$pods.$other.0/24" via "$net.$other"; done
nft "add table ip floor; add chain ip floor post { type nat hook postrouting priority srcnat - 1; }"
nft "add rule ip floor post ip saddr $pods.0.0/16 ip daddr != $pods.0.0/16 oifname != cni0 masquerade"
nft "add rule ip floor post ip saddr != $pods.0.0/16 ip daddr $pods.0.0/16 oifname != cni0 snat to $pods.$own.1"
[ "$(hostname)" = login0 ] || echo '{"uuids": ["0", "1", "2", "3", "4", "5", "6", "7"]}' > /var/lib/rackwright/gpus.json
for i in 0 1 2 3 4 5 6 7; do [ "$(hostname)" = login0 ] || [ -e "/dev/nvidia$i" ] || mknod -m 666 "/dev/nvidia$i" c 1 3; done
systemctl unmask containerd kubelet 2>/dev/null || true
systemctl daemon-reload
systemctl enable --quiet kubelet
systemctl restart containerd
until ctr version >/dev/null 2>&1; do sleep 0.1; done
ctr -n k8s.io images import /opt/rackwright/kubernetes/images/node.tar >/dev/null
[ "$(hostname)" != login0 ] || ctr -n k8s.io images import /opt/rackwright/kubernetes/images/control-plane.tar >/dev/null
NODE
}
token=abcdef.0123456789abcdef endpoint=$net.${number[login0]}:6443
prepared() { prepare "$1" | on "$1"; }
for node in "${nodes[@]}"; do prepared "$node" & done
for job in $(jobs -p); do wait "$job"; done
stage imported

on login0 <<NODE
cat > /run/init.yaml <<'X'
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens: [{token: $token, ttl: 1h0m0s}]
localAPIEndpoint: {advertiseAddress: ${endpoint%:*}, bindPort: 6443}
nodeRegistration: {name: login0, criSocket: "unix:///run/containerd/containerd.sock", imagePullPolicy: IfNotPresent}
timeouts: {kubernetesAPICall: 4m0s}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v$(podman exec "$name-login0" sed -n 's/.*"kubernetes": "\(.*\)".*/\1/p' /opt/rackwright/kubernetes/bundle.json)
controlPlaneEndpoint: $endpoint
networking: {serviceSubnet: $services, podSubnet: $pods.0.0/16}
controllerManager: {extraArgs: [{name: allocate-node-cidrs, value: "false"}]}
---
$(configuration)
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
oomScoreAdj: 0
conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
X
kubeadm init --config /run/init.yaml --ignore-preflight-errors=$ignored >/run/init.log 2>&1 || { cat /run/init.log >&2; exit 1; }
NODE
stage init

join() {
  on "$1" <<NODE
kubeadm join $endpoint --token $token --discovery-token-unsafe-skip-ca-verification --node-name $1 \
  --ignore-preflight-errors=$ignored >/run/join.log 2>&1 || { cat /run/join.log >&2; exit 1; }
NODE
}
for node in worker0 worker1; do join "$node" & done
for job in $(jobs -p); do wait "$job"; done
stage joined

on login0 <<'NODE'
export KUBECONFIG=/etc/kubernetes/admin.conf
image=$(grep -o 'rackwright.local/gpu-device-plugin:[^"]*' /opt/rackwright/kubernetes/bundle.json)
kubectl apply -f - >/dev/null <<X
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: gpu, namespace: kube-system}
spec:
  selector: {matchLabels: {app: gpu}}
  template:
    metadata: {labels: {app: gpu}}
    spec:
      containers:
      - {name: plugin, image: "$image", imagePullPolicy: IfNotPresent, securityContext: {privileged: true}, volumeMounts: [
          {name: plugins, mountPath: /var/lib/kubelet/device-plugins}, {name: dev, mountPath: /dev}, {name: state, mountPath: /var/lib/rackwright}]}
      volumes:
      - {name: plugins, hostPath: {path: /var/lib/kubelet/device-plugins}}
      - {name: dev, hostPath: {path: /dev}}
      - {name: state, hostPath: {path: /var/lib/rackwright}}
X
kubectl wait --for=condition=Ready node --all --timeout=120s >/dev/null
kubectl -n kube-system rollout status deployment/coredns --timeout=120s >/dev/null
for _ in $(seq 300); do
  gpus=$(kubectl get nodes -o 'jsonpath={.items[*].status.allocatable.nvidia\.com/gpu}')
  [ "$gpus" != "8 8" ] || exit 0
  sleep 0.2
done
echo "the workers offer '$gpus' GPUs and not '8 8'" >&2
kubectl get pods -A -o wide >&2
exit 1
NODE
stage GPUs
