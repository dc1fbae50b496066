package container

import (
	"io/fs"
	"strings"
)

const logFolder = "var/log/containers" // the folder in which the kubelet keeps a link to each container's log

// logNames lists the containers of the node's pods by id. What cannot be read is not there.
func logNames(root fs.FS) map[string]Pod {
	entries, _ := fs.ReadDir(root, logFolder) // entries read before an error count
	names := make(map[string]Pod, len(entries))
	for _, e := range entries {
		if id, pod, ok := ParseLogName(e.Name()); ok {
			names[id] = pod
		}
	}
	return names
}

// ParseLogName reads the name of a link in /var/log/containers, which the kubelet gives to the log of each
// container: POD_NAMESPACE_CONTAINER-ID.log. None of the three names may hold an underscore.
func ParseLogName(name string) (id string, pod Pod, ok bool) {
	rest, isLog := strings.CutSuffix(name, ".log")
	parts := strings.Split(rest, "_")
	if !isLog || len(parts) != 3 {
		return "", Pod{}, false
	}
	i := strings.LastIndexByte(parts[2], '-')
	if i < 0 || !idForm.MatchString(parts[2][i+1:]) {
		return "", Pod{}, false
	}
	pod = Pod{Namespace: parts[1], Name: parts[0], Container: parts[2][:i]}
	if pod.Namespace == "" || pod.Name == "" || pod.Container == "" {
		return "", Pod{}, false
	}
	return parts[2][i+1:], pod, true
}
