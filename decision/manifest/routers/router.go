// Package routers writes the configuration that puts a router before a service's replicas: the Gateway API inference
// extension's objects, values of llm-d's router chart and of vLLM's production stack. [Services] adds it to the folder
// of package manifest, [Build] writes it for pools that a program states itself. The package is experimental.
package routers

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/internal/enum"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/sharing"
)

// Pool is one model's replicas and the router in front of them.
type Pool struct {
	Name      string // a DNS label: the pool's, and that of its releases
	Namespace string // of the servers' pods; "" leaves it out
	// Model is the name that the servers know the model by; the policies by the exact prefix index need it.
	Model  string
	Labels map[string]string // select the servers' pods
	Port   int               // that the servers listen on; 0 = 8000, vLLM's
	Policy Policy
	// Priorities are the classes of requests that the router tells apart, by the
	// names of their objectives: a higher one is served first when the pool is full.
	Priorities map[string]int
	// Servers describes the servers that the production stack starts; nil leaves its values out, since
	// its chart starts servers and router together.
	Servers *StackServers
}

// Policy says how a router chooses among the replicas. The zero value is PolicyPrefixApproximate, which needs nothing
// of the servers and does what PolicyLeastRequests does where no prompts begin alike.
type Policy uint8

// The policies.
const (
	PolicyPrefixApproximate Policy = iota // the router remembers which prompts it sent to which replica
	PolicyPrefixExact                     // the replicas tell which prefixes their caches hold
	PolicyKVAware                         // the same, weighed against how full the caches are
	PolicyLeastRequests                   // the fewest requests, waiting and running
	PolicySession                         // a session always goes to the same replica
	PolicyRoundRobin                      // one replica after the other
	PolicyRandom
)

var policies = enum.Of[Policy](manifest.ErrInvalid, "routing policy", "prefix-approximate", "prefix-exact", "kv-aware",
	"least-requests", "session", "round-robin", "random")

// Policies lists the policies in order.
func Policies() []Policy { return policies.Values() }

// exact says that a policy goes by the exact prefix index.
func (p Policy) exact() bool { return p == PolicyPrefixExact || p == PolicyKVAware }

// StackServers are the servers of a pool as vLLM's production stack starts them.
type StackServers struct {
	Replicas   int
	Repository string // of the image, for example "vllm/vllm-openai"
	Tag        string
	ModelURL   string // for example "meta-llama/Llama-3.1-8B-Instruct"
	CPUs       int    // requested
	Memory     string // requested, for example "16Gi"
	Storage    string // of the volume that holds the weights, for example "50Gi"
	// GPUResource is the extended resource of which each server gets one, for example
	// "nvidia.com/mig-3g.40gb"; "" means "nvidia.com/gpu".
	GPUResource string
	Args        []string // further arguments of vLLM
}

// Warnings of Build.
const (
	WarnPolicy sharing.WarningCode = "router-policy" // this router has no such policy; the nearest was taken
	WarnNeeds  sharing.WarningCode = "router-needs"  // the policy needs something beside the documents
)

// Build writes the routers of pools in memory: for each the Gateway API inference extension's InferencePool with
// llm-d's InferenceObjectives and endpoint picker configuration, values of llm-d's router chart, and values of vLLM's
// production stack. A router that lacks a pool's policy gets the nearest one and a warning. The error
// matches manifest.ErrInvalid, names every problem, and comes without a folder.
//
// Forms: inference.networking.k8s.io/v1 of the extension's v1.6.0, llm-d.ai/v1alpha2 (objectives) and llm-d.ai/v1alpha1
// (the picker's configuration) of llm-d-router v0.10.0, and the production stack's values schema; see the sources of
// the files' headers.
func Build(pools []Pool) (*manifest.Folder, error) {
	var l problem.List
	l.If(len(pools) == 0, "pools", "name at least one", "none")
	seen := map[string]bool{}
	for i := range pools {
		at, file := fmt.Sprintf("pools[%d]", i), pools[i].file()
		pools[i].check(&l, at)
		l.If(seen[file], at+".name", "give each its own", "%q twice", file)
		seen[file] = true
	}
	if err := l.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", manifest.ErrInvalid, err)
	}
	return write(pools)
}

func write(pools []Pool) (*manifest.Folder, error) {
	b := builder{}
	for i := range pools {
		p := &pools[i]
		config, err := yamlnode.Encode(nil, b.llmdPicker(p).document())
		if err == nil {
			err = errors.Join(b.inferenceExtension(p, string(config)), b.llmdValues(p, string(config)), b.stackValues(p))
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(b.Files, func(x, y manifest.File) int { return strings.Compare(x.Path, y.Path) })
	return &b.Folder, nil
}

// builder collects the files and warnings of Build.
type builder struct{ manifest.Folder }

// encode adds a file of documents under a header of comments.
func (b *builder) encode(path, note string, header []string, docs ...*yaml.Node) error {
	data, err := yamlnode.Encode(header, docs...)
	b.Files = append(b.Files, manifest.File{Path: path, Data: data, Note: note})
	return err
}

// longestName bounds a pool's name: charts append to it.
const longestName = 53

var (
	releaseName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?$`)
	namespace   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	labelValue  = regexp.MustCompile(`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`)
	labelKey    = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	quantity    = regexp.MustCompile(`^[1-9][0-9]*([KMGTP]i?)?$`)
)

// file is the name under which the pool's documents are written.
func (p *Pool) file() string {
	return strings.TrimPrefix(p.Namespace+"."+p.Name, ".")
}

func (p *Pool) check(l *problem.List, at string) {
	l.If(!releaseName.MatchString(p.Name), at+".name", "use at most 53 lower-case letters, digits and dashes", "is %q",
		problem.Clip(p.Name))
	l.If(p.Namespace != "" && !namespace.MatchString(p.Namespace), at+".namespace",
		"use at most 63 lower-case letters, digits and dashes", "is %q", problem.Clip(p.Namespace))
	l.If(p.Model == "" && p.Policy.exact(), at+".model", "write the name that the servers know it by", "missing")
	l.If(p.Port < 0 || p.Port > 65535, at+".port", "use 1 to 65535", "is %d", p.Port)
	l.If(len(p.Labels) == 0, at+".labels", "write the labels of the servers' pods", "missing")
	for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
		value := p.Labels[key]
		bad := !labelKey.MatchString(key) || len(value) > 63 || !labelValue.MatchString(value)
		l.If(bad, fmt.Sprintf("%s.labels[%s]", at, problem.Clip(key)), "use a Kubernetes label and value", "%q is refused",
			problem.Clip(value))
	}
	l.If(!policies.Has(p.Policy), at+".policy", "use one of the constants", "%d is not a value", p.Policy)
	for _, name := range slices.Sorted(maps.Keys(p.Priorities)) {
		l.If(!releaseName.MatchString(name), fmt.Sprintf("%s.priorities[%s]", at, problem.Clip(name)),
			"use lower-case letters, digits and dashes", "is refused as a name")
	}
	if p.Servers != nil {
		p.Servers.check(l, at+".servers")
	}
}

func (s *StackServers) check(l *problem.List, at string) {
	for _, f := range []struct{ name, value string }{{"repository", s.Repository}, {"tag", s.Tag},
		{"model_url", s.ModelURL}} {
		l.If(f.value == "", at+"."+f.name, "the chart's schema demands it", "missing")
	}
	for _, f := range []struct{ name, value string }{{"memory", s.Memory}, {"storage", s.Storage}} {
		l.If(!quantity.MatchString(f.value), at+"."+f.name, "write a quantity such as 16Gi", "is %q", problem.Clip(f.value))
	}
	l.If(s.Replicas < 1, at+".replicas", "use 1 or more", "is %d", s.Replicas)
	l.If(s.CPUs < 1, at+".cpus", "use 1 or more", "is %d", s.CPUs)
	l.If(s.GPUResource != "" && !labelKey.MatchString(s.GPUResource), at+".gpu_resource",
		"write it as nodes show it, for example nvidia.com/gpu", "is %q", problem.Clip(s.GPUResource))
}

// usualPort is the one that vLLM listens on by default.
const usualPort = 8000

func (p *Pool) port() int { return cmp.Or(p.Port, usualPort) }

func (p *Pool) ports() *yaml.Node { return yamlnode.List(yamlnode.Map("number", p.port())) }

// metadata is that of an object beside the pool's pods.
func (p *Pool) metadata(name string) *yaml.Node {
	return yamlnode.Map("name", name, "namespace", yamlnode.Some(p.Namespace))
}

// install is the helm command that installs a chart for the pool.
func (p *Pool) install() string {
	if p.Namespace == "" {
		return "helm install " + p.Name
	}
	return "helm install " + p.Name + " -n " + p.Namespace
}

// unlike warns that a router takes another policy than the pool's, or needs something for it.
func (b *builder) unlike(code sharing.WarningCode, p *Pool, message, remedy string) {
	b.Warnings = append(b.Warnings, sharing.Warning{Code: code, Path: p.file(), Message: message, Remedy: remedy})
}

// stackRouting is the production stack's name for a policy; it takes round robin where it has none.
var stackRouting = map[Policy]string{
	PolicyRoundRobin: "roundrobin", PolicySession: "session",
	PolicyPrefixApproximate: "prefixaware", PolicyPrefixExact: "kvaware",
	PolicyKVAware: "kvaware",
}

const sessionHeader = "x-session-id" // names a client's session to the production stack's router

// stackValues writes values of vLLM's production stack, which starts the servers too.
func (b *builder) stackValues(p *Pool) error {
	s := p.Servers
	if s == nil {
		return nil
	}
	logic, has := stackRouting[p.Policy]
	if !has {
		logic = stackRouting[PolicyRoundRobin]
		b.unlike(WarnPolicy, p, fmt.Sprintf("the production stack's router has no %v policy; its values take %v",
			p.Policy, PolicyRoundRobin), "use llm-d's values, or a policy that it has")
	}
	sessionKey := ""
	var lmcachePort any
	switch logic {
	case "session":
		sessionKey = sessionHeader
		b.unlike(WarnNeeds, p, "the production stack's session routing goes by the header "+sessionHeader,
			"let the clients send it")
	case "kvaware":
		lmcachePort = 9000
		b.unlike(WarnNeeds, p,
			"the production stack's kvaware routing asks LMCache's controller which server holds a prefix",
			"start the servers with LMCache and its controller")
	}
	router := yamlnode.Map("enableRouter", true, "replicaCount", 1, "serviceDiscovery", "k8s",
		"routingLogic", logic, "sessionKey", yamlnode.Some(sessionKey), "lmcacheControllerPort", lmcachePort)
	vllm := yamlnode.Map("enablePrefixCaching", true, "extraArgs", s.Args)
	spec := yamlnode.Map("name", p.Name, "repository", s.Repository, "tag", s.Tag, "modelURL", s.ModelURL,
		"replicaCount", s.Replicas, "requestCPU", s.CPUs, "requestMemory", s.Memory, "requestGPU", 1,
		"requestGPUType", yamlnode.Some(s.GPUResource), "pvcStorage", s.Storage, "vllmConfig", vllm)
	return b.encode("production-stack/"+p.file()+".values.yaml", "values of vLLM's production stack", []string{
		p.install() + " vllm/vllm-stack: github.com/vllm-project/production-stack, helm/values.schema.json.",
	}, yamlnode.Map("servingEngineSpec", yamlnode.Map("labels", p.Labels, "containerPort", p.port(),
		"modelSpec", yamlnode.List(spec)), "routerSpec", router))
}
