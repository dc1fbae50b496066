// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover/internal/hami"
	"github.com/cotenant/cotenant/decision/discover/internal/usage"
	"github.com/cotenant/cotenant/decision/fleet"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry"
	"github.com/cotenant/cotenant/telemetry/serving"
)

// Collector collects the inputs of one cluster.
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
	others            map[string][]*pod // pods without GPUs, by node
	repels            []repeller
	ending            map[string]string // a pod with GPUs that is being deleted, by node
	autoscalers       map[owner]fleet.Autoscaler
	users             []*pod
	budgets           []*budgetObject
	quotas            []*quotaObject
	podUIDs           map[string]string
	clusters          map[string][]string        // nodes by the cluster that a label names
	usage             *usage.Reader              // nil = no samples
	plugins           map[string][]*pluginConfig // by the key in a ConfigMap
	machines          []*machine
	pages             []metricsPage
	troubles          problem.List // of the file that is read
	findings
}

// New returns a Collector without inputs.
func New(opts Options) *Collector {
	opts.Prices, opts.Hints = cmp.Or(opts.Prices, &Prices{}), cmp.Or(opts.Hints, &Hints{})
	return &Collector{opts: opts, others: map[string][]*pod{}, ending: map[string]string{}, answers: map[string]string{},
		nodes: map[string]*nodeObject{}, devices: map[string]map[string]*device{}, generation: map[string]int64{},
		claims: map[string]*claim{}, templates: map[string]*claim{}, classes: map[string]deviceClass{},
		hamiNames: map[string]role{}, poolNode: map[string]string{}, controllers: map[string]*controller{},
		autoscalers: map[owner]fleet.Autoscaler{}, podUIDs: map[string]string{}, clusters: map[string][]string{},
		plugins: map[string][]*pluginConfig{}}
}

// trouble adds a problem of the file that is read.
func (c *Collector) trouble(file, field, format string, args ...any) {
	c.troubles.Addf(file+": "+field, "", format, args...)
}

// sameObject notes an object that was there already; another UID makes it another cluster's.
func (c *Collector) sameObject(file, object, had, got string) {
	if had != "" && got != "" && had != got {
		c.find("two-clusters/same-name", object, file)
	}
}

// claimRef names a ResourceClaim and the template that it is made from, by namespace and name; either may be empty.
type claimRef struct{ claim, template string }

type pod struct {
	namespace, name, node string
	owner                 owner
	controller            ownerRef // that made it
	running               bool
	wants                 []wanted // by container, in the pod's order
	notes                 stringMap
	guess                 guess
	framework             fleet.Framework // by its arguments
	uid                   sharing.Optional[int]
	selects               string // the key of a node selector that picks GPUs
	claims                []claimRef
	extended              map[string]bool // resources backed by a claim
	labels                stringMap
	container             string // the first that asks for GPUs
	bound                 string // a rule of its own that is not planned with
	rules                 *fleet.Scheduling
	requests              map[string]int64 // by resource, without GPUs
	quotas                map[string]int64 // amounts that count against quotas

	// In the discovery that is made.
	held      []holding
	ask       ask // of them, put together
	signature string
	of        *workload
	at        *node // nil for a node that is not known
}

// ask holds a pod's GPUs in the terms of a fleet.
type ask struct {
	gpus     int    // devices, or shares of them
	resource string // nvidia.com/gpu, ...
	profile  string // of MIG, the largest
	cores    int    // percent, the most of one card
	delivery sharing.Delivery
}

type wanted struct {
	container string
	init      bool // it ends before the others start
	amounts   map[string]int
}

// holding is a pod's grant or request of identical GPUs: of one that is known, or of several that are not.
type holding struct {
	use
	gpus           int    // GPUs, shares of them or MIG instances
	device         string // the GPU, by its identifier on its node; "" = not known which
	container      string
	resource       string
	memory         sharing.Bytes // of each
	request        sharing.Bytes // by which KAI places, where memory is a limit beyond it
	percent, cores int           // of each card
	fraction       float64
	start, size    int  // of a MIG instance that was placed; size 0 = not known
	granted        bool // recorded as given, not only requested
}

// bytes returns the memory held of each GPU that has so much; 0 where nothing bounds or states it.
func (h *holding) bytes(total sharing.Bytes) sharing.Bytes {
	switch {
	case h.memory > 0:
		return h.memory
	case h.percent > 0:
		return total * sharing.Bytes(min(h.percent, 100)) / 100
	}
	return sharing.Bytes(h.fraction * float64(total))
}

// kind describes each device of a holding.
func (h *holding) kind() string {
	switch {
	case h.profile != "":
		return "mig " + h.profile
	case h.memory > 0:
		return h.memory.String()
	}
	return "a GPU"
}

type controller struct {
	owner
	of       owner // of a ReplicaSet or Job
	replicas int
	pod      *pod   // of its template, where that asks for GPUs
	holds    string // why its pods do not follow a patch
}

// repeller is a pod that keeps off those that its term selects.
type repeller struct {
	namespace, name string
	term            podTerm
}

// claim holds the known parts of a ResourceClaim for GPUs.
type claim struct {
	classes   []string // that it asks for, one an entry for each device
	strategy  string   // TimeSlicing, MPS or none
	allocated []allocation
	memory    sharing.Bytes   // requested of each device, the most; 0 = not given
	pods      int             // that it is reserved for
	observes  bool            // some of it is admin access, which takes no device from anybody
	admin     map[string]bool // its requests of admin access
	elsewhere bool            // it was given devices of other drivers
}

// allocation is a device that a claim was given.
type allocation struct {
	deviceID
	memory sharing.Bytes // that the claim consumes of it; 0 = not given
}

type deviceID struct{ pool, device string }

type device struct {
	deviceBody
	pool, name, kind, uuid, parent, product, profile string
	memory                                           sharing.Bytes
}

type deviceClass struct {
	kind     string // gpu, mig or vfio; empty of another driver's
	strategy string
}

// pluginConfig is the sharing of whole GPUs by a configuration of the device plugin, as a ConfigMap has it.
type pluginConfig struct {
	object, source string
	mechanism      sharing.Mechanism
	replicas       int
	refused        bool // the plugin does not start with it
}

type machine struct {
	name      string // of the file: its base name up to the first dot
	inventory telemetry.Inventory
}

type metricsPage struct {
	file     string
	readings []serving.Reading
}

// node holds the known facts of a Kubernetes node with GPUs, or of a machine by its driver.
type node struct {
	name     string
	meta     *nodeObject // nil for machines that no Node describes
	findings *findings   // of the discovery
	// offers has the amounts of resources with all devices healthy.
	offers map[string]int

	group, groupFrom       string // node pool
	instanceType, typeFrom string
	product                string // as it was read
	gpu                    *sharing.GPU
	productFrom            Provenance
	driver                 sharing.Driver
	driverFrom             Provenance
	delivery               sharing.Delivery
	deliveryFrom           Provenance
	gpus                   int // physical
	gpusFrom               Provenance
	mechanism              sharing.Mechanism // of the GPUs that are not in MIG mode
	mechanismFrom          Provenance
	replicas               int // of a shared GPU; 1 = whole
	replicasFrom           string
	inMIG                  int            // GPUs in MIG mode
	instances              map[string]int // MIG instances by profile
	single                 string         // the profile of nvidia.com/gpu under the MIG strategy single
	layouts                []string       // exact, of the GPUs in MIG mode
	uuids                  []string
	pids                   map[uint32]bool     // processes that were counted, of a machine
	apart                  string              // why no pod is placed on it: cordoned, not ready
	apartGPUs              map[string]string   // GPUs that take no new pods, and why
	devices                []*device           // of DRA
	managers               []string            // that hand out its GPUs
	resource               string              // by which pods ask for GPUs that are not in MIG mode
	offered                int                 // of it, by the device plugin
	registry               sharing.Delivery    // HAMi or Volcano, where one of them hands out its GPUs
	registered             []hami.GPU          // with it
	countName              string              // the resource of HAMi's count of GPUs, where it is renamed
	inside                 []Inside            // MIG instances that pods share
	others                 []string            // resources that it offers and that are not understood
	opaque                 map[string][]string // pods by resource that is not understood
	closed                 string              // why its free devices are not known, or not for all pods
	pods                   []*pod              // that run there
}

// build is a Discovery in the making. It adds nothing to its Collector.
type build struct {
	*Discovery
	findings
	c       *Collector
	devices map[string][]*device // of DRA, by node
	heldBy  map[deviceID]int     // pods by DRA device
	// heldDevices are the DRA devices that claims were given.
	heldDevices map[*device]bool
	hamiCounts  map[string]bool             // names of HAMi's count of GPUs on nodes
	others      map[string]bool             // resources that GPU nodes offer and that are not understood
	room, left  map[string]map[string]int64 // of nodes, before and after pods with GPUs
	nodes       []*node
	byName      map[string]*node
	pools       []*pool
	poolOf      map[*node]*pool
	workloads   []*workload

	byDevice     map[string]*workload // by the UUID of a GPU or MIG device that a claim gave
	sharedSeries map[*workload]bool   // measured only together with others on its device
}

// pool is nodes with the same GPUs.
type pool struct {
	*decision.Pool        // in the fleet
	at             string // its path there
	nodes          []*node
}

// workload is pods of one owner that ask for the same.
type workload struct {
	*decision.Workload        // in the fleet
	at                 string // its path there
	pods               []*pod
	key                workloadKey
	all                int // pods, or the replicas that its owner wants
	first              *pod
	held               sharing.Optional[sharing.Bytes] // memory that its process holds, of a machine
	node               *node                           // one that it runs on, nil where none is known
	several            bool                            // it runs in several pools
}

type workloadKey struct {
	owner
	signature string
}

func (b *build) note(path string, from Provenance) { b.Provenance[path] = from }

// Discovery holds the findings about one cluster.
type Discovery struct {
	Fleet      decision.Fleet        `json:"-"`
	Provenance map[string]Provenance `json:"provenance"` // by path in the fleet
	Findings   []Finding             `json:"findings"`   // worst first
	Unknown    []Unknown             `json:"unknown"`    // by path
	Today      []Sharing             `json:"today"`      // by pool and mechanism
	Used       []Used                `json:"-"`          // measured use, by workload
	// Profiles holds, by workload, the profile of a model server with a GPU of its own, made from several metrics pages.
	// Add them to decision.Options.Profiles to predict from them.
	Profiles map[string]profile.SoloProfile `json:"profiles,omitempty"`
	Pods     int                            `json:"-"` // number of pods read, with or without GPUs
}

// Sharing counts a pool's GPUs under one mechanism at present.
type Sharing struct {
	Pool      string            `json:"pool"`
	Mechanism sharing.Mechanism `json:"mechanism"`
	GPUs      int               `json:"gpus"`
	Tenants   int               `json:"tenants"` // pods that run on them
	Inside    []Inside          `json:"inside,omitempty"`
}

// Inside describes MIG instances with several pods each: only the mechanism's isolation separates the pods of one
// instance.
type Inside struct {
	Profile   string            `json:"profile"`
	Mechanism sharing.Mechanism `json:"mechanism"`
	Pods      int               `json:"pods"` // to an instance
}

// Used holds a workload's measured use of its GPUs over time, per replica and GPU. Unmeasured figures are missing.
type Used struct {
	Workload  string
	MemoryMax sharing.Optional[sharing.Bytes]
	BusyMean  sharing.Optional[float64] // share of a whole GPU
	// Together is set if the figures describe whole GPUs that others use too. WholeBusy is the mean busy share of such
	// GPUs, also if its own part is known.
	Together  bool
	WholeBusy sharing.Optional[float64]
}

// Unknown is a field without a source in the input.
type Unknown struct {
	Path   string `json:"path"` // in the fleet: "workloads[3].memory"
	Why    string `json:"why"`
	Remedy string `json:"remedy"` // the cheapest way to find out
}
