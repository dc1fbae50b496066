package loadgen

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strconv"
	text "text/template"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/loadgen/internal/wire"
)

// Options tune Run. The zero value is the documented default.
type Options struct {
	// Dir is the run's directory. It is created; it must not exist or must be empty. "" keeps everything in memory.
	Dir string
	// RunID names the run; "" means one made of the time, the plan's scenario and its seed.
	RunID string
	// Progress, when not nil, is called every second, from one goroutine, and once after the last request.
	Progress func(Progress)
	// KeepRecords keeps every Record in Result.Records.
	KeepRecords bool
	// Health are the bounds of the client-health verdict.
	Health HealthLimits
	// Pacing says how open loops wait.
	Pacing Pacing
	// Receive says how answers are read and timed.
	Receive Receive
	// Worker makes this process one of several that share the plan's load.
	Worker Worker
	// StartAt, when not zero, is when the run starts, so that workers start together.
	StartAt time.Time
	// StopSaturated stops the run once the server is found to fall behind.
	StopSaturated bool
	// Meta is written into config.json as it stands: arguments, GPU inventory,
	// sharing mode. The plan's credentials are removed from it.
	Meta map[string]any
}

// Worker says which part of a plan's load a process offers: of an open loop every Count-th arrival from Index on,
// of a closed loop its share of the users, and the prompts in the same way. The parts of all workers make up the
// plan exactly. The zero value is all of it.
type Worker struct {
	Index int `json:"index"`
	Count int `json:"count"`
}

func (w Worker) count() int { return max(w.Count, 1) }

// mine says whether the k-th arrival or prompt is this worker's.
func (w Worker) mine(k int64) bool { return k%int64(w.count()) == int64(w.Index) }

// share is this worker's part of n things.
func (w Worker) share(n int) int {
	s := n / w.count()
	if w.Index < n%w.count() {
		s++
	}
	return s
}

func (o *Options) check() error {
	var l problem.List
	l.If(o.Worker.Count < 0 || o.Worker.Index < 0 || o.Worker.Index >= o.Worker.count(), "worker",
		"use 0 <= index < count", "index %d of %d", o.Worker.Index, o.Worker.Count)
	l.If(!receiveNames.Has(o.Receive), "receive", "use one of the package's constants", "%d is not a value", o.Receive)
	l.If(!pacingNames.Has(o.Pacing), "pacing", "use PacingPrecise or PacingTimer", "%d is not a value", o.Pacing)
	return l.Under(errors.New("loadgen: invalid options"))
}

// Progress holds the state of a run.
type Progress struct {
	Elapsed time.Duration
	Tenants []TenantProgress
}

// Line formats the state for people, with the rate of tokens, of requests that have
// ended, since an earlier state of the same run; the zero value is its start.
func (p Progress) Line(last Progress) string {
	total := func(p Progress) (sum TenantProgress) {
		for _, t := range p.Tenants {
			sum.Sent, sum.OK, sum.Failed = sum.Sent+t.Sent, sum.OK+t.OK, sum.Failed+t.Failed
			sum.InFlight, sum.Tokens = sum.InFlight+t.InFlight, sum.Tokens+t.Tokens
		}
		return sum
	}
	now, rate := total(p), ""
	if d := p.Elapsed - last.Elapsed; d >= 100*time.Millisecond {
		rate = fmt.Sprintf(", %.0f tokens/s", float64(now.Tokens-total(last).Tokens)/d.Seconds())
	}
	return fmt.Sprintf("%5.1fs: sent %d, ok %d, failed %d, in flight %d%s",
		p.Elapsed.Seconds(), now.Sent, now.OK, now.Failed, now.InFlight, rate)
}

// TenantProgress counts a tenant's requests and tokens since the run's start.
type TenantProgress struct {
	Name     string
	Sent     int64
	OK       int64
	Failed   int64
	InFlight int64
	Tokens   int64 // of requests that have ended
	// TTFTSum and TTFTCount are over the requests that have ended ok.
	TTFTSum   time.Duration
	TTFTCount int64
}

// Receive says how answers are read and whose clock gives the times of their events. The zero value is
// ReceivePolled. What a system or a connection cannot do becomes the next value.
type Receive uint8

// The ways to receive.
const (
	// ReceivePolled takes the kernel's receive times, and sends and reads plain HTTP/1.1
	// without net/http, in batches with a poller, at the least CPU (Linux).
	ReceivePolled = Receive(wire.ModePolled)
	// ReceiveStamped takes the kernel's receive times, without the poller: one
	// goroutine waits for each connection (Linux).
	ReceiveStamped = Receive(wire.ModeStamped)
	// ReceivePlain takes the times after the read, as a client without help does.
	//
	// Here and under ReceiveStamped net/http takes chunks apart. Where the size of the
	// next chunk came in the same read without the chunk, it hands an event over only
	// once that has come: a stall just there after the first token is timeout_ttft.
	ReceivePlain = Receive(wire.ModePlain)
)

var receiveNames = enum.Of[Receive](ErrUnknownName, "way to receive", "polled", "stamped", "plain")

// Job describes a Kubernetes Job that runs one plan's workers on several machines. Each pod runs the caller's own
// program, which takes its part from WorkerIndexEnv and WorkerCountEnv into Options.Worker and leaves its artifacts
// under /runs/<index>; the caller gathers and merges them.
type Job struct {
	Name      string
	Namespace string // "" leaves it to kubectl
	Image     string
	Args      []string
	Workers   int
	// StartAt, RFC 3339, is handed to the workers in StartAtEnv when not empty.
	StartAt string
	// SecretName is a Secret whose key "api-key" the workers get in APIKeyEnv. The
	// key itself never stands in the manifest.
	SecretName string
	// ClaimName is a PersistentVolumeClaim mounted at /runs; "" uses an emptyDir, which is lost with the pod.
	ClaimName string
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

//go:embed job.yaml.tmpl
var jobTemplate string

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
	var filled bytes.Buffer
	var manifest any
	err := text.Must(text.New("job").Parse(jobTemplate)).Execute(&filled, j)
	if err == nil {
		err = yaml.Unmarshal(filled.Bytes(), &manifest)
	}
	if err != nil {
		return fmt.Errorf("loadgen: invalid job: %w", err)
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(manifest); err != nil {
		return fmt.Errorf("loadgen: write job: %w", err)
	}
	return enc.Close()
}
