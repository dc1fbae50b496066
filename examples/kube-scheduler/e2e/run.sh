#!/usr/bin/env bash
# Runs the scheduler end to end: builds kube-apiserver and this example's
# kube-scheduler from their Go modules, takes etcd from the PATH or installs
# Debian's, starts them on loopback with everything they write in a temporary
# folder, and binds made-up pods to made-up nodes.
#
#   examples/kube-scheduler/e2e/run.sh [-- FLAGS OF go test]
#
# Needs Go, and root where etcd has to be installed. The first build takes 10 to
# 20 minutes on two cores, the run itself about two.
set -euo pipefail
cd "$(dirname "$0")"
case "${1:-}" in
-h | --help)
  sed -n '2,11s/^# \{0,1\}//p' "$0"
  exit 0
  ;;
--) shift ;;
esac

bin=$(mktemp -d)
tests=
# The control plane is in the process group of the tests, and goes with it.
finish() {
  [ -z "$tests" ] || kill -KILL -- "-$tests" 2>/dev/null || true
  rm -rf "$bin"
}
trap finish EXIT
trap 'exit 130' INT TERM

if ! command -v etcd >/dev/null; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "run.sh: etcd is not on the PATH: install it (Debian: apt-get install etcd-server)" >&2
    exit 2
  fi
  apt-get update -qq
  apt-get install -y -qq etcd-server >/dev/null
fi

export CGO_ENABLED=0
version=$(go -C apiserver list -m -f '{{.Version}}' k8s.io/kubernetes)
stamp="-X k8s.io/component-base/version.gitVersion=$version"
echo "building kube-apiserver $version"
go -C apiserver build -ldflags "$stamp" -o "$bin/kube-apiserver" k8s.io/kubernetes/cmd/kube-apiserver
echo "building kube-scheduler with the Cotenant plugin"
go -C .. build -ldflags "$stamp" -o "$bin/kube-scheduler" ./cmd/kube-scheduler
go version
set -m
go -C .. test -tags e2e -count=1 -timeout 20m -v ./e2e "$@" -args \
  -etcd "$(command -v etcd)" -apiserver "$bin/kube-apiserver" -scheduler "$bin/kube-scheduler" &
tests=$!
set +m
wait "$tests"
