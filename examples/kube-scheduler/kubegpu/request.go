// SPDX-License-Identifier: Apache-2.0

package kubegpu

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/decision/filter"
	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/sharing"
)

// Ruling is a node's verdict on a pod, with its reason. Code is short and stable, to
// count nodes by; Text is for people and has the numbers.
type Ruling struct {
	Ruling filter.Verdict
	Code   string
	Text   string
}

// Codes of verdicts in addition to those of package placement.
const (
	CodeNoGPU    = "no-gpu"   // the node offers none
	CodeLabels   = "labels"   // its labels contradict its capacity
	CodeResource = "resource" // it offers GPUs under another resource
	CodeReplicas = "replicas" // more than one replica of a shared GPU
	CodeInvalid  = "invalid"  // the claim is nothing that placement takes

	// Those of package filter that are named here.
	codeFits, codeMIGMode, codeProfile, codeSlices = "fits", "mig-mode", "profile", "slices"
)

// ShortReasons describe those codes in a few words.
var ShortReasons = map[string]string{CodeNoGPU: "no GPU", CodeLabels: "labels contradict the capacity",
	CodeResource: "GPUs under another resource than asked for", CodeReplicas: "more than one replica of a shared GPU",
	CodeInvalid: "a claim that cannot be placed"}

func pass() Ruling { return Ruling{Ruling: filter.VerdictPass, Code: codeFits, Text: "it fits"} }

// inMIGMode refuses a request for a share.
var inMIGMode = Ruling{filter.VerdictFixable, codeMIGMode, "the GPU is in MIG mode: ask for a profile"}

func refuse(code, format string, args ...any) Ruling {
	return Ruling{Ruling: filter.VerdictReject, Code: code, Text: fmt.Sprintf(format, args...)}
}

func verdictOf(f filter.Reason) Ruling {
	if f.Verdict == filter.VerdictPass {
		return pass()
	}
	return Ruling{Ruling: f.Verdict, Code: f.Code.String(), Text: f.String()}
}

// Final reports whether the verdict holds as long as the node's hardware and settings stay, even if all pods leave.
func (v Ruling) Final() bool {
	switch v.Code {
	case CodeNoGPU, CodeLabels, CodeResource, CodeReplicas, CodeInvalid, "model", codeMIGMode, "not-mig", codeProfile,
		"no-mechanism", "mechanism", "gpu-memory-unknown":
		return true
	}
	return false
}

// Reasons counts the rulings of nodes, by their names, by code, the most frequent
// first, each with the text of the first node by name.
func Reasons(rulings map[string]Ruling) string {
	count, example := map[string]int{}, map[string]string{}
	for _, node := range slices.Sorted(maps.Keys(rulings)) {
		v := rulings[node]
		if count[v.Code]++; count[v.Code] == 1 {
			example[v.Code] = node + ": " + v.Text
		}
	}
	codes := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(count[b]-count[a], cmp.Compare(example[a], example[b]))
	})
	parts := make([]string, len(codes))
	for i, c := range codes {
		parts[i] = fmt.Sprintf("%d %s (%s)", count[c], c, example[c])
	}
	return strings.Join(parts, "; ")
}

// requests returns a pod's requests to a node in placement's terms, each with its container: the amount of a claim
// depends on how the node offers its GPUs. CPU and memory of the pod are in the first request.
func (p *Pod) requests(n *Node) (out []*placement.Request, containers []string, v Ruling) {
	if n == nil {
		return nil, nil, refuse(CodeNoGPU, "the node offers no GPU")
	}
	if len(n.Problems) > 0 {
		return nil, nil, refuse(CodeLabels, "what the node says of its GPUs cannot be: %s", n.Problems[0])
	}
	for i := range p.Claims {
		rs, v := p.claim(&p.Claims[i], n)
		if v.Ruling != filter.VerdictPass {
			return nil, nil, v
		}
		for _, r := range rs {
			out, containers = append(out, r), append(containers, p.Claims[i].Container)
		}
	}
	out[0].CPUMilli, out[0].Memory = p.cpuMilli, p.memory
	for i, r := range out {
		if r.Name += "#" + strconv.Itoa(i); i == 0 {
			r.Name = p.Name
		}
		if err := r.Validate(); err != nil {
			return nil, nil, refuse(CodeInvalid, "%v", err)
		}
	}
	return out, containers, pass()
}

// request returns a pod's request to a node. Where the pod names no mechanism, it asks for the one by which the node
// offers the resource.
func (p *Pod) request(n *Node) *placement.Request {
	r := &placement.Request{Name: p.Name, GPUs: 1, Models: p.Models, Mechanisms: p.Mechanisms, Workload: &p.Workload,
		GPUMemory: p.GPUMemory}
	if len(r.Mechanisms) == 0 && n.Mechanism != sharing.MechanismNone {
		r.Mechanisms = []sharing.Mechanism{n.Mechanism}
	}
	return r
}

func (p *Pod) claim(c *Claim, n *Node) ([]*placement.Request, Ruling) {
	r := p.request(n)
	r.GPUs, r.Milli = c.GPUs, c.Milli
	hami := n.Mechanism == sharing.MechanismHAMi || n.Mechanism == sharing.MechanismHAMiWithMPS
	switch {
	case c.Profile != "" && n.Single != "":
		return nil, refuse(CodeResource, "asks for %s%s, and the node offers its instances as %s", ResourceMIGPrefix,
			c.Profile, n.Resource)
	case c.Profile != "":
		r.Profile, r.Mechanisms = c.Profile, p.Mechanisms
		return []*placement.Request{r}, pass()
	case c.hami() && !hami:
		return nil, refuse(CodeResource, "asks for HAMi's resources, and HAMi does not run the node")
	case string(c.Resource) != n.Resource:
		return nil, refuse(CodeResource, "asks for %s, and the node offers %s", c.Resource, n.offers())
	case n.Single != "":
		if c.Milli > 0 && c.Milli < 1000 {
			return nil, inMIGMode
		}
		var out []*placement.Request
		for range c.GPUs {
			one := p.request(n)
			one.Profile, one.Mechanisms = n.Single, p.Mechanisms
			out = append(out, one)
		}
		return out, pass()
	case n.onlyMIG():
		return nil, inMIGMode
	case hami:
		p.hamiShare(r, c, n)
	case n.Replicas > 1:
		if c.GPUs > 1 && n.Mechanism == sharing.MechanismMPS {
			return nil, refuse(CodeReplicas, "asks for %d replicas of GPUs shared by mps: the device plugin gives a pod one",
				c.GPUs)
		}
		r.Milli = cmp.Or(r.Milli, max(1, 1000/n.Replicas))
	case r.Milli == 0:
		r.Milli = 1000
	}
	return []*placement.Request{r}, pass()
}

// hamiShare returns the share that HAMi gives for a claim: the whole card's memory unless
// limited, and as much compute as there is unless limited.
func (p *Pod) hamiShare(r *placement.Request, c *Claim, n *Node) {
	switch {
	case c.Memory > 0:
		r.GPUMemory = c.Memory
	case c.MemoryPercent > 0:
		r.GPUMemory = n.GPU.Memory * sharing.Bytes(c.MemoryPercent) / 100
	case r.GPUMemory == 0:
		r.GPUMemory = n.GPU.Memory
	}
	r.Milli = cmp.Or(r.Milli, 10*c.Cores)
}

// onlyMIG reports whether every GPU is in MIG mode.
func (n *Node) onlyMIG() bool {
	return !slices.ContainsFunc(n.Devices, func(d layout.Device) bool { return d.Mode != sharing.MechanismMIG })
}

// offers names the resources under which the node's GPUs are requested.
func (n *Node) offers() string {
	if n.hasMIG() && n.Single == "" {
		return ResourceMIGPrefix + "*"
	}
	return n.Resource
}
