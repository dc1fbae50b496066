// Package routers writes the side of an arrangement that puts requests before the replicas: the Gateway API inference
// extension's objects, values of llm-d's router chart and of vLLM's production stack. The package is experimental.
package routers

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision/manifest"
	"github.com/cotenant/cotenant/decision/predict/serving"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/yamlnode"
	"github.com/cotenant/cotenant/sharing"
)

// Pool is one model's replicas and the router in front of them.
type Pool struct {
	Name  string // a DNS label: the pool's, and that of its releases
	Model string // the name that the servers know the model by
	// Labels select the servers' pods, which listen on port 8000.
	Labels map[string]string
	Policy serving.RoutePolicy
	// Priorities are the classes of requests that the router tells apart, by the
	// names of their objectives: a higher one is served first when the pool is full.
	Priorities map[string]int
	// Servers describes the servers that the production stack starts; nil leaves its values out, since
	// its chart starts servers and router together.
	Servers *StackServers
}

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

// Build writes the router's side of an arrangement in memory: for each pool the Gateway API inference extension's
// InferencePool with llm-d's InferenceObjectives and endpoint picker configuration, values of llm-d's router chart, and
// values of vLLM's production stack. A router that lacks a pool's policy gets the nearest one and a warning. The error
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
		at := fmt.Sprintf("pools[%d]", i)
		pools[i].check(&l, at)
		l.If(seen[pools[i].Name], at+".name", "give each its own", "%q twice", pools[i].Name)
		seen[pools[i].Name] = true
	}
	if err := l.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", manifest.ErrInvalid, err)
	}
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

var (
	releaseName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?$`) // with room for what charts append
	labelValue  = regexp.MustCompile(`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`)
	labelKey    = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	quantity    = regexp.MustCompile(`^[1-9][0-9]*([KMGTP]i?)?$`)
)

func (p *Pool) check(l *problem.List, at string) {
	l.If(!releaseName.MatchString(p.Name), at+".name", "use at most 53 lower-case letters, digits and dashes", "is %q",
		problem.Clip(p.Name))
	l.If(p.Model == "", at+".model", "write the name that the servers know it by", "missing")
	l.If(len(p.Labels) == 0, at+".labels", "write the labels of the servers' pods", "missing")
	for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
		value := p.Labels[key]
		bad := !labelKey.MatchString(key) || len(value) > 63 || !labelValue.MatchString(value)
		l.If(bad, fmt.Sprintf("%s.labels[%s]", at, problem.Clip(key)), "use a Kubernetes label and value", "%q is refused",
			problem.Clip(value))
	}
	l.If(!slices.Contains(serving.RoutePolicies(), p.Policy), at+".policy", "use one of package serving's constants",
		"%d is not a value", p.Policy)
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

// port is the one that servers listen on, vLLM's default.
const port = 8000

func ports() *yaml.Node { return yamlnode.List(yamlnode.Map("number", port)) }

// unlike warns that a router takes another policy than the pool's, or needs something for it.
func (b *builder) unlike(code sharing.WarningCode, p *Pool, message, remedy string) {
	b.Warnings = append(b.Warnings, sharing.Warning{Code: code, Path: p.Name, Message: message, Remedy: remedy})
}

// stackRouting is the production stack's name for a policy; it takes round robin where it has none.
var stackRouting = map[serving.RoutePolicy]string{
	serving.RoutePolicyRoundRobin: "roundrobin", serving.RoutePolicySession: "session",
	serving.RoutePolicyPrefixApproximate: "prefixaware", serving.RoutePolicyPrefixExact: "kvaware",
	serving.RoutePolicyKVAware: "kvaware",
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
		logic = stackRouting[serving.RoutePolicyRoundRobin]
		b.unlike(WarnPolicy, p, fmt.Sprintf("the production stack's router has no %v policy; its values take %v",
			p.Policy, serving.RoutePolicyRoundRobin), "use llm-d's values, or plan with a policy that it has")
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
	return b.encode("production-stack/"+p.Name+".values.yaml", "values of vLLM's production stack", []string{
		"helm install " + p.Name + " vllm/vllm-stack: github.com/vllm-project/production-stack, helm/values.schema.json.",
	}, yamlnode.Map("servingEngineSpec", yamlnode.Map("labels", p.Labels, "containerPort", port,
		"modelSpec", yamlnode.List(spec)), "routerSpec", router))
}
