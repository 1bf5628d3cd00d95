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
