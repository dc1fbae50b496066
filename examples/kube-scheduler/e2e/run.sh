#!/usr/bin/env bash
# Runs the scheduler end to end: builds kube-apiserver, kubectl and this example's
# kube-scheduler from their Go modules, takes etcd from the PATH or Debian's
# package, starts them on loopback with everything they write in a temporary
# folder, and binds made-up pods to made-up nodes.
#
#   examples/kube-scheduler/e2e/run.sh [-- FLAGS OF go test]
#
# Needs Go; and root only where etcd is missing and apt has no package lists yet.
# The first build takes five to ten minutes on two cores, the run itself one.
set -euo pipefail
cd "$(dirname "$0")"
case "${1:-}" in
-h | --help)
  sed -n '2,11s/^# \{0,1\}//p' "$0"
  exit 0
  ;;
--) shift ;;
esac

work=$(mktemp -d)
tests=
# The control plane is in the process group of the tests, and goes with it.
finish() {
  if [ -n "$tests" ]; then
    kill -KILL -- "-$tests" 2>/dev/null || true
    wait "$tests" 2>/dev/null || true
  fi
  rm -rf "$work" 2>/dev/null || { sleep 1; rm -rf "$work"; }
}
trap finish EXIT
trap 'exit 130' INT TERM

# Debian's package is unpacked, not installed: that would start a service.
etcd=$(command -v etcd || true)
if [ -z "$etcd" ]; then
  if ! command -v apt-get >/dev/null; then
    echo "run.sh: etcd is not on the PATH, and there is no apt-get to get it with" >&2
    exit 2
  fi
  mkdir "$work/etcd"
  (
    cd "$work/etcd"
    # As this user: apt's own could not write here.
    fetch() { apt-get download -qq -o APT::Sandbox::User="$(id -un)" etcd-server; }
    fetch || { apt-get update -qq && fetch; }
    dpkg-deb -x etcd-server_*.deb .
  )
  etcd=$work/etcd/usr/bin/etcd
fi

export CGO_ENABLED=0
build() { # module package output
  local version
  version=$(go -C "$1" list -m -f '{{.Version}}' k8s.io/kubernetes)
  echo "building $3 with Kubernetes $version"
  go -C "$1" build -ldflags "-X k8s.io/component-base/version.gitVersion=$version" -o "$work/$3" "$2"
}
build apiserver k8s.io/kubernetes/cmd/kube-apiserver kube-apiserver
build apiserver k8s.io/kubernetes/cmd/kubectl kubectl
build .. ./cmd/kube-scheduler kube-scheduler
export PATH="$work:$PATH" # for cotenant's kubectl
go version
set -m
TMPDIR=$work go -C .. test -tags e2e -count=1 -timeout 20m -v ./e2e "$@" -args \
  -etcd "$etcd" -apiserver "$work/kube-apiserver" -scheduler "$work/kube-scheduler" &
tests=$!
set +m
wait "$tests"
