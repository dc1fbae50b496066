package loadgen

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/problem"
)

// Job describes a Kubernetes Job that runs one plan's workers on several machines. Each pod runs the caller's own
// program, which takes its part from WorkerIndexEnv and WorkerCountEnv into Options.Worker and leaves its artifacts
// under OutputDir/<index>; the caller gathers and merges them.
type Job struct {
	Name      string
	Namespace string // "" leaves it to kubectl
	Image     string
	Command   []string
	Args      []string
	Workers   int
	// StartAt, RFC 3339, is handed to the workers in StartAtEnv when not empty.
	StartAt string
	// SecretName is a Secret whose key "api-key" the workers get in APIKeyEnv. The
	// key itself never stands in the manifest.
	SecretName string
	// ClaimName is a PersistentVolumeClaim mounted at OutputDir; "" uses an emptyDir, which is lost with the pod.
	ClaimName string
	OutputDir string // "" means /runs
	// CPU and Memory are each worker's request and limit, e.g. "4" and "1Gi"; ""
	// means "2" and "512Mi". Whole CPUs let the kubelet pin them.
	CPU, Memory string
}

// The environment variables of a worker.
const (
	WorkerIndexEnv = "JOB_COMPLETION_INDEX" // set by Kubernetes for an indexed Job
	WorkerCountEnv = "LOADGEN_WORKERS"
	StartAtEnv     = "LOADGEN_START_AT"
	APIKeyEnv      = "LOADGEN_API_KEY"
)

// WorkerFromEnv reads a worker's part of the load, and when it starts, from its environment, which lookup
// (os.LookupEnv, usually) gives. Without the variables it is all of the load, at once.
func WorkerFromEnv(lookup func(string) (string, bool)) (w Worker, startAt time.Time, err error) {
	count, ok := lookup(WorkerCountEnv)
	if !ok {
		return w, startAt, nil
	}
	index, _ := lookup(WorkerIndexEnv)
	var err1, err2 error
	w.Count, err1 = strconv.Atoi(count)
	w.Index, err2 = strconv.Atoi(index)
	if err1 != nil || err2 != nil || w.Count < 1 || w.Index < 0 || w.Index >= w.Count {
		err = fmt.Errorf("loadgen: %s=%q, %s=%q: want 0 <= index < count", WorkerIndexEnv, index, WorkerCountEnv, count)
		return Worker{}, startAt, err
	}
	if text, ok := lookup(StartAtEnv); ok && text != "" {
		if startAt, err = time.Parse(time.RFC3339, text); err != nil {
			err = fmt.Errorf("loadgen: %s: %q is not a time (write e.g. 2026-01-02T15:04:05Z)", StartAtEnv, text)
		}
	}
	return w, startAt, err
}

type (
	obj = map[string]any
	arr = []any
)

// WriteYAML writes the manifest as YAML.
func (j Job) WriteYAML(w io.Writer) error {
	var l problem.List
	for _, f := range []struct{ name, value string }{{"name", j.Name}, {"image", j.Image}} {
		l.If(f.value == "", f.name, "set it", "empty")
	}
	l.If(j.Workers < 1, "workers", "use 1 or more", "%d", j.Workers)
	if _, err := time.Parse(time.RFC3339, j.StartAt); j.StartAt != "" && err != nil {
		l.Addf("start_at", "write e.g. 2026-01-02T15:04:05Z", "%q is not a time", j.StartAt)
	}
	if err := l.Err(); err != nil {
		return fmt.Errorf("loadgen: invalid job: %w", err)
	}
	dir := cmp.Or(j.OutputDir, "/runs")
	env := arr{obj{"name": WorkerCountEnv, "value": strconv.Itoa(j.Workers)}}
	if j.StartAt != "" {
		env = append(env, obj{"name": StartAtEnv, "value": j.StartAt})
	}
	if j.SecretName != "" {
		env = append(env, obj{"name": APIKeyEnv,
			"valueFrom": obj{"secretKeyRef": obj{"name": j.SecretName, "key": "api-key"}}})
	}
	resources := obj{"cpu": cmp.Or(j.CPU, "2"), "memory": cmp.Or(j.Memory, "512Mi")}
	container := obj{
		"name": "loadgen", "image": j.Image, "env": env,
		"resources":    obj{"requests": resources, "limits": resources},
		"volumeMounts": arr{obj{"name": "runs", "mountPath": dir}},
	}
	if len(j.Command) > 0 {
		container["command"] = j.Command
	}
	if len(j.Args) > 0 {
		container["args"] = j.Args
	}
	volume := obj{"name": "runs", "emptyDir": obj{}}
	if j.ClaimName != "" {
		volume = obj{"name": "runs", "persistentVolumeClaim": obj{"claimName": j.ClaimName}}
	}
	labels := obj{"app.kubernetes.io/name": "loadgen", "app.kubernetes.io/instance": j.Name}
	meta := obj{"name": j.Name, "labels": labels}
	if j.Namespace != "" {
		meta["namespace"] = j.Namespace
	}
	manifest := obj{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": meta,
		"spec": obj{
			"completionMode": "Indexed", "completions": j.Workers, "parallelism": j.Workers, "backoffLimit": 0,
			"template": obj{
				"metadata": obj{"labels": labels},
				"spec": obj{
					"restartPolicy": "Never", "containers": arr{container}, "volumes": arr{volume},
					// Workers on one node would share its CPUs and its network.
					"topologySpreadConstraints": arr{obj{
						"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
						"labelSelector": obj{"matchLabels": labels},
					}},
				},
			},
		},
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(manifest); err != nil {
		return fmt.Errorf("loadgen: write job: %w", err)
	}
	return enc.Close()
}
