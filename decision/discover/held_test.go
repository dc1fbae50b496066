// SPDX-License-Identifier: Apache-2.0

package discover_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/sharing"
)

// heldCase is a cluster as people have it, in a short form, and the expected discovery.
type heldCase struct {
	Name    string
	Nodes   []heldNode
	Pods    []heldPod
	Claims  []heldClaim
	Objects []map[string]any // as Kubernetes has them

	Rows     []string          // pools, today's sharing and workloads; see rows
	Free     int               // GPUs that are reported as held by no pod
	Findings map[string]string // by code, a part of the message
	Not      []string          // codes that must not be there
	Calm     bool              // no finding is of a high severity
	Closed   []string          // nodes that take no new pods
}

type heldNode struct {
	Name                string
	Labels, Annotations map[string]string
	Offers              map[string]string
	Devices             []heldDevice // of the DRA driver
}

type heldDevice struct {
	Name, Type, UUID, Parent, Product, Profile, Bus, Taint string
	Several                                                bool
}

type heldPod struct {
	Name, Node, Phase   string // running on the only node, unless it says otherwise
	Labels, Annotations map[string]string
	Limits              map[string]string   // of its only container
	Containers          []map[string]string // limits
	Init                []map[string]string
	Claims              []string
	Extended            string   // the claim behind its extended resources
	Maps                []string // those resources
	Command             string
}

type heldClaim struct {
	Name, Class, Device, Strategy, Driver, Consumed string
	Count                                           int
	Admin                                           bool
}

func object(kind, version, name string, more map[string]any) map[string]any {
	o := map[string]any{"apiVersion": version, "kind": kind, "metadata": map[string]any{"name": name, "namespace": "t", "uid": "uid-" + name}}
	for k, v := range more {
		if meta, ok := v.(map[string]any); ok && k == "metadata" {
			for key, value := range meta {
				o["metadata"].(map[string]any)[key] = value
			}
			continue
		}
		o[k] = v
	}
	return o
}

const dra = "resource.k8s.io/v1"

// json writes the case's objects as kubectl does.
func (c *heldCase) json(t testing.TB) string {
	t.Helper()
	all := c.Objects
	for _, n := range c.Nodes {
		all = append(all, object("Node", "v1", n.Name, map[string]any{
			"metadata": map[string]any{"labels": n.Labels, "annotations": n.Annotations, "namespace": ""},
			"status":   map[string]any{"capacity": n.Offers, "allocatable": n.Offers}}))
		if len(n.Devices) > 0 {
			all = append(all, n.slice())
		}
	}
	for _, k := range c.Claims {
		all = append(all, k.object(c.Nodes[0].Name))
	}
	for _, p := range c.Pods {
		if p.Node == "" && p.Phase == "" {
			p.Node = c.Nodes[0].Name
		}
		all = append(all, p.object())
	}
	data, err := json.Marshal(map[string]any{"kind": "List", "apiVersion": "v1", "items": all})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (n *heldNode) slice() map[string]any {
	var devices []map[string]any
	for _, d := range n.Devices {
		attributes := map[string]any{}
		for key, v := range map[string]string{"type": d.Type, "uuid": d.UUID, "parentUUID": d.Parent, "profile": d.Profile,
			"productName": d.Product, "resource.kubernetes.io/pciBusID": d.Bus} {
			if v != "" {
				attributes[key] = map[string]string{"string": v}
			}
		}
		one := map[string]any{"name": d.Name, "attributes": attributes, "allowMultipleAllocations": d.Several,
			"capacity": map[string]any{"memory": map[string]string{"value": "81559Mi"}}}
		if d.Taint != "" {
			one["taints"] = []map[string]string{{"key": d.Taint, "effect": "NoSchedule"}}
		}
		devices = append(devices, one)
	}
	return object("ResourceSlice", dra, n.Name+"-slice", map[string]any{"spec": map[string]any{"driver": "gpu.nvidia.com",
		"nodeName": n.Name, "pool": map[string]any{"name": n.Name, "generation": 1}, "devices": devices}})
}

func (k *heldClaim) object(pool string) map[string]any {
	request := map[string]any{"deviceClassName": k.Class, "count": max(1, k.Count)}
	if k.Admin {
		request["adminAccess"] = true
	}
	var config []map[string]any
	if k.Strategy != "" {
		config = append(config, map[string]any{"opaque": map[string]any{"driver": "gpu.nvidia.com", "parameters": map[string]any{"sharing": map[string]any{"strategy": k.Strategy}}}})
	}
	status := map[string]any{}
	var results []map[string]any
	for _, d := range strings.Fields(k.Device) {
		one := map[string]any{"request": "r", "driver": "gpu.nvidia.com", "pool": pool, "device": d}
		if k.Driver != "" {
			one["driver"] = k.Driver
		}
		if k.Consumed != "" {
			one["consumedCapacity"] = map[string]string{"memory": k.Consumed}
		}
		results = append(results, one)
	}
	if len(results) > 0 {
		status = map[string]any{"allocation": map[string]any{"devices": map[string]any{"results": results}}, "reservedFor": []map[string]string{{"resource": "pods", "name": "p"}}}
	}
	return object("ResourceClaim", dra, k.Name, map[string]any{"status": status, "spec": map[string]any{"devices": map[string]any{
		"requests": []map[string]any{{"name": "r", "exactly": request}}, "config": config}}})
}

func (p *heldPod) object() map[string]any {
	if p.Limits != nil || len(p.Containers)+len(p.Init) == 0 {
		p.Containers = append(p.Containers, p.Limits)
	}
	list := func(names string, all []map[string]string) (out []map[string]any) {
		for i, limits := range all {
			out = append(out, map[string]any{"name": fmt.Sprintf("%s%d", names, i), "image": "i", "command": strings.Fields(p.Command), "resources": map[string]any{"limits": limits}})
		}
		return out
	}
	var claims []map[string]string
	for i, k := range p.Claims {
		key := "resourceClaimName"
		if name, ok := strings.CutPrefix(k, "template "); ok {
			k, key = name, "resourceClaimTemplateName"
		}
		claims = append(claims, map[string]string{"name": fmt.Sprint(i), key: k})
	}
	phase := p.Phase
	if phase == "" {
		phase = "Running"
	}
	status := map[string]any{"phase": phase}
	if p.Extended != "" {
		var maps []map[string]string
		for _, m := range p.Maps {
			maps = append(maps, map[string]string{"resourceName": m})
		}
		status["extendedResourceClaimStatus"] = map[string]any{"resourceClaimName": p.Extended, "requestMappings": maps}
	}
	return object("Pod", "v1", p.Name, map[string]any{"metadata": map[string]any{"labels": p.Labels, "annotations": p.Annotations}, "status": status,
		"spec": map[string]any{"nodeName": p.Node, "containers": list("c", p.Containers), "initContainers": list("i", p.Init), "resourceClaims": claims}})
}

var notHeld = regexp.MustCompile(`at least (\d+) of`)

// free counts the GPUs that a discovery says no pod holds.
func free(d *discover.Discovery) (n int) {
	for _, f := range d.Findings {
		if m := notHeld.FindStringSubmatch(f.Message); m != nil && f.Code == "gpus-not-held" {
			k, _ := strconv.Atoi(m[1])
			n += k
		}
	}
	return n
}

// same checks that a cluster's fleet is the same bytes each time, and one that is read.
func same(t *testing.T, d *discover.Discovery, text string) {
	t.Helper()
	var want bytes.Buffer
	if err := errors.Join(d.WriteFleet(&want), json.NewEncoder(&want).Encode(d)); err != nil {
		t.Error(err)
	}
	for range 6 {
		again, _ := read(t, discover.Options{}, "objects", text)
		var got bytes.Buffer
		if err := errors.Join(again.WriteFleet(&got), json.NewEncoder(&got).Encode(again)); err != nil || got.String() != want.String() {
			t.Fatalf("%v: another fleet from the same input:\n%s", err, cmp.Diff(want.String(), got.String()))
		}
	}
	var fleet bytes.Buffer
	err := d.WriteFleet(&fleet)
	if _, unread := decision.ParseFleet(fleet.Bytes()); err != nil || unread != nil && len(d.Fleet.Pools) > 0 && len(d.Fleet.Workloads) > 0 {
		t.Errorf("%v, %v\n%s", err, unread, &fleet)
	}
}

// TestHeld: the holders of each GPU, by every way in which pods get GPUs. The forms are those that each project's
// own code writes; UPSTREAM.md has their versions.
func TestHeld(t *testing.T) {
	var cases []heldCase
	if err := yaml.Unmarshal([]byte(file(t, "held.yaml")), &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			text := c.json(t)
			d := joined(t, discover.Options{}, "objects", text)
			same(t, d, text)
			if diff := cmp.Diff(c.Rows, rows(d)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := free(d); got != c.Free {
				t.Errorf("%d GPUs are reported as free, want %d", got, c.Free)
			}
			for code, message := range c.Findings {
				ok := false
				for _, f := range d.Findings {
					ok = ok || f.Code == code && strings.Contains(f.Object+": "+f.Message, message)
				}
				if !ok {
					t.Errorf("no %s that says %q among %+v", code, message, d.Findings)
				}
			}
			for _, code := range c.Not {
				if f := found(d, code); f != nil {
					t.Errorf("%+v", f)
				}
			}
			for _, f := range d.Findings {
				if c.Calm && f.Severity == sharing.SeverityHigh {
					t.Errorf("%+v", f)
				}
			}
			var closed []string
			for _, n := range d.Fleet.Today.Nodes {
				if n.Closed != "" {
					closed = append(closed, n.Name)
				}
			}
			if diff := cmp.Diff(c.Closed, closed); diff != "" {
				t.Errorf("closed nodes (-want +got):\n%s", diff)
			}
		})
	}
}
