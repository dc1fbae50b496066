// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover/internal/nvsmi"
	"github.com/cotenant/cotenant/decision/discover/internal/usage"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/serving"
)

// ErrInvalid is matched by every error about an input that cannot be read.
var ErrInvalid = errors.New("discover: invalid")

// Provenance names the source of a field of the fleet.
type Provenance struct {
	// Basis is "declared" by a label, annotation or request; "derived" from such; "measured" by samples over time or by
	// the device itself; "guess" by a rule; or "given" by the user's own file.
	Basis  string `json:"basis"`
	Source string `json:"source"` // "label nvidia.com/gpu.product"
}

// The bases.
const (
	basisDeclared = "declared"
	basisDerived  = "derived"
	basisMeasured = "measured"
	basisGuess    = "guess"
	basisGiven    = "given"
)

// String writes it as the fleet file's comments do.
func (p Provenance) String() string { return p.Basis + ": " + p.Source }

// Finding is something about the cluster that its owner should know.
type Finding struct {
	Code     string           `json:"code"` // "two-managers"
	Severity sharing.Severity `json:"severity"`
	Object   string           `json:"object"` // "node gpu-1", "workload team/chat"
	Message  string           `json:"message"`
	Source   string           `json:"source"` // the label, resource or file that shows it
}

// Unknown is a field without a source among the input.
type Unknown struct {
	Path     string `json:"path"` // in the fleet: "workloads[3].memory"
	Why      string `json:"why"`
	SettleBy string `json:"settle_by"` // the cheapest way to know
	// MonthlyAtStake is the cost of the GPUs concerned in a month of 730 hours, an exact decimal; empty without prices.
	MonthlyAtStake string `json:"monthly_at_stake,omitempty"`

	stake int64 // micro-units
}

// Sharing counts a pool's GPUs under one mechanism today.
type Sharing struct {
	Pool      string            `json:"pool"`
	Mechanism sharing.Mechanism `json:"mechanism"`
	GPUs      int               `json:"gpus"`
	Tenants   int               `json:"tenants"` // pods that run on them
	Inside    []Inside          `json:"inside,omitempty"`
}

// Discovery holds the findings about one cluster.
type Discovery struct {
	Fleet      decision.Fleet
	Provenance map[string]Provenance // by path in the fleet
	Findings   []Finding             // worst first
	Unknown    []Unknown             // by the money at stake
	Today      []Sharing             // by pool and mechanism
	Used       []Used                // measured use, by workload
	// Profiles holds, by workload, the profile of a model server with a GPU of its own, made from several metrics pages.
	// Add them to decision.Options.Profiles to predict from them.
	Profiles map[string]profile.SoloProfile
	Pods     int // that were read, with GPUs or without
}

// Options tune a Collector. The zero value is the documented default.
type Options struct {
	Hints  *Hints  // nil = none
	Prices *Prices // nil = none
}

// Collector takes the inputs of one cluster.
type Collector struct {
	opts Options

	objects           int
	pods              int
	nodes             map[string]*nodeObject
	devices           map[string]map[string]*device // of DRA, by pool and name
	generation        map[string]int64              // by pool
	claims, templates map[string]*claim
	classes           map[string]deviceClass
	answers           map[string]string // classes by the extended resource that they answer to
	poolNode          map[string]string // nodes by the name of their pool of DRA devices
	hamiNames         map[string]role   // by HAMi's configuration
	controllers       map[string]*controller
	others            map[string][]other // pods without GPUs, by node
	repels            []repeller
	ending            map[string]string // a pod with GPUs that is being deleted, by node
	autoscalers       map[string]autoscaler
	users             []*pod
	budgets           []*budgetObject
	quotas            []*quotaObject
	podUIDs           map[string]string
	clusters          map[string][]string        // nodes by the cluster that a label names
	usage             *usage.Reader              // nil = no samples
	plugins           map[string][]*pluginConfig // by the key in a ConfigMap
	exporter          version
	at                time.Time // the latest time in any object
	machines          []*machine
	pages             []metricsPage
	troubles          problem.List // of the file that is read
	reported          map[string]int
	findings
}

// findings holds the findings in any order, perhaps twice.
type findings []Finding

// New returns a Collector without inputs.
func New(opts Options) *Collector {
	opts.Prices, opts.Hints = cmp.Or(opts.Prices, &Prices{}), cmp.Or(opts.Hints, &Hints{})
	return &Collector{opts: opts, others: map[string][]other{}, ending: map[string]string{},
		nodes: map[string]*nodeObject{}, devices: map[string]map[string]*device{},
		generation: map[string]int64{},
		claims:     map[string]*claim{}, templates: map[string]*claim{}, classes: map[string]deviceClass{},
		answers: map[string]string{}, hamiNames: map[string]role{},
		poolNode: map[string]string{}, controllers: map[string]*controller{},
		autoscalers: map[string]autoscaler{},
		podUIDs:     map[string]string{}, plugins: map[string][]*pluginConfig{}, clusters: map[string][]string{},
		reported: map[string]int{}}
}

const sniffed = 32 << 10 // the number of bytes of a file that tell its kind

// Read reads a file and finds its kind from its content; name identifies it in errors and findings. The error lists the
// parts that can't be read; the rest is kept and used by [Collector.Discover].
func (c *Collector) Read(name string, r io.Reader) error {
	in := bufio.NewReaderSize(r, 64<<10)
	head, err := in.Peek(sniffed)
	if err != nil && err != io.EOF && len(head) == 0 { // otherwise the input ends after head
		return fmt.Errorf("%w: %s: %w", ErrInvalid, name, err)
	}
	c.troubles = problem.List{}
	if err := c.read(name, head, in); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return c.troubles.Under(ErrInvalid)
}

// read hands a file to the reader of its kind.
func (c *Collector) read(name string, head []byte, in io.Reader) error {
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	if len(text) == 0 {
		return fmt.Errorf("%s: it is empty", name)
	}
	if nvsmi.Sniff(head) {
		inv, err := nvsmi.XML(in)
		if len(inv.GPUs) > 0 {
			c.AddInventory(stem(name), inv)
		}
		return inFile(name, err)
	} else if what := nvsmi.Unread(head); what != "" {
		return fmt.Errorf("%s: it is %s: give `nvidia-smi -q -x` of the machine", name, what)
	}
	if read := usage.Sniff(head); read != nil {
		if c.usage == nil {
			c.usage = usage.New()
		}
		servers := servers{}
		c.usage.Serving = servers.add
		return errors.Join(read(c.usage, name, in), c.keepServers(name, servers))
	}
	if servingHead.Match(head) {
		return c.keepServing(name, in, serving.Parse)
	}
	switch {
	case text[0] == '{':
		return c.readKube(name, in)
	case metricsHead.Match(text):
		return fmt.Errorf("%s: it is a metrics page with none of the families that are read: looked for "+
			"DCGM_FI_DEV_FB_USED, vllm:num_requests_running, sglang:num_running_reqs, llamacpp:requests_processing and the "+
			"like, with any prefix", name)
	case text[0] == '[':
		return fmt.Errorf("%s: it is a JSON list: give objects as `kubectl get ... -o json` writes them, or one after "+
			"another (jq -c '.[]')", name)
	case bytes.HasPrefix(text, []byte("apiVersion:")), bytes.HasPrefix(text, []byte("---")),
		bytes.HasPrefix(text, []byte("items:")), bytes.HasPrefix(text, []byte("kind:")):
		return fmt.Errorf("%s: it is YAML: write it with `kubectl get ... -o json`", name)
	}
	return fmt.Errorf("%s: it is of no kind that is read (it begins with %.40q): give Kubernetes objects as JSON, what "+
		"nvidia-smi -q -x printed, samples of dcgm-exporter, or a model server's metrics", name, firstLine(string(text)))
}

func inFile(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// trouble adds a problem of the file that is read, at most maxReported of a kind.
func (c *Collector) trouble(file, field, message string) {
	kind, _, _ := strings.Cut(field, " (")
	key := file + "\x00" + kind
	if c.reported[key]++; c.reported[key] > maxReported {
		return
	}
	if c.reported[key] == maxReported {
		message += "; further ones are left out"
	}
	c.troubles.Addf(file+": "+field, "", "%s", message)
}

// sameObject notes an object that was there already; another UID makes it another cluster's.
func (c *Collector) sameObject(file, object, had, got string) {
	if had != "" && got != "" && had != got {
		c.find("two-clusters", sharing.SeverityHigh, object, file,
			"is there twice with different UIDs: the input mixes two clusters or two moments; the first is used")
	}
}

func (l *findings) find(code string, severity sharing.Severity, object, source, format string, args ...any) {
	plain := func(text string) string { return plaintext.Show(oneLine(text)) } // names of others may hold anything
	*l = append(*l, Finding{code, severity, plain(object), plain(fmt.Sprintf(format, args...)), plain(source)})
}

// ambiguous are the boards that an ambiguous name may mean.
func ambiguous(err error) []string {
	if a := (*sharing.AmbiguousGPUError)(nil); errors.As(err, &a) {
		return a.Matches
	}
	return nil
}
