package routers

import (
	"fmt"

	"github.com/cotenant/cotenant/internal/yamlnode"
)

// stackRouting is the production stack's name for a policy, and what it takes instead where it has none.
var stackRouting = map[Policy]struct {
	logic   string
	instead Policy
}{
	PolicyRoundRobin:        {"roundrobin", PolicyRoundRobin},
	PolicyRandom:            {"roundrobin", PolicyRoundRobin},
	PolicyLeastRequests:     {"roundrobin", PolicyRoundRobin},
	PolicyPowerOfTwo:        {"roundrobin", PolicyRoundRobin},
	PolicySessionAffinity:   {"session", PolicySessionAffinity},
	PolicyPrefixApproximate: {"prefixaware", PolicyPrefixApproximate},
	PolicyPrefixExact:       {"kvaware", PolicyPrefixExact},
	PolicyKVAware:           {"kvaware", PolicyKVAware},
}

const sessionHeader = "x-session-id" // names a client's session to the production stack's router

// stackValues writes values of vLLM's production stack, which starts the servers too.
func (b *builder) stackValues(p *Pool) error {
	s := p.Servers
	if s == nil {
		return nil
	}
	routing := stackRouting[p.Policy]
	if routing.instead != p.Policy {
		b.unlike(WarnPolicy, p, fmt.Sprintf("the production stack's router has no %v policy; its values take %v",
			p.Policy, routing.instead),
			"use llm-d's values, or plan with a policy that it has")
	}
	router := []any{"enableRouter", true, "replicaCount", 1, "serviceDiscovery", "k8s", "routingLogic", routing.logic}
	switch routing.logic {
	case "session":
		router = append(router, "sessionKey", sessionHeader)
		b.unlike(WarnNeeds, p, "the production stack's session routing goes by the header "+sessionHeader,
			"let the clients send it")
	case "kvaware":
		router = append(router, "lmcacheControllerPort", 9000)
		b.unlike(WarnNeeds, p,
			"the production stack's kvaware routing asks LMCache's controller which server holds a prefix",
			"start the servers with LMCache and its controller")
	}
	args := s.Args
	vllm := []any{"enablePrefixCaching", true}
	if len(p.Adapters) > 0 {
		vllm = append(vllm, "maxLoras", len(p.Adapters))
	}
	if len(args) > 0 {
		vllm = append(vllm, "extraArgs", args)
	}
	spec := []any{
		"name", p.Name, "repository", s.Repository, "tag", s.Tag, "modelURL", s.ModelURL, "replicaCount", s.Replicas,
		"requestCPU", s.CPUs, "requestMemory", s.Memory, "requestGPU", 1,
	}
	if s.GPUResource != "" {
		spec = append(spec, "requestGPUType", s.GPUResource)
	}
	spec = append(spec, "pvcStorage", s.Storage)
	if len(p.Adapters) > 0 {
		spec = append(spec, "enableLoRA", true)
	}
	spec = append(spec, "vllmConfig", yamlnode.Map(vllm...))
	return b.encode("production-stack/"+p.Name+".values.yaml", "values of vLLM's production stack", []string{
		"helm install " + p.Name + " vllm/vllm-stack: github.com/vllm-project/production-stack, helm/values.schema.json.",
	}, yamlnode.Map("servingEngineSpec", yamlnode.Map("labels", p.Labels, "containerPort", p.ports()[0], "modelSpec",
		yamlnode.List(yamlnode.Map(spec...))),
		"routerSpec", yamlnode.Map(router...)))
}
