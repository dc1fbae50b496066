// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/decision/discover/internal/stream"
	"github.com/cotenant/cotenant/internal/plaintext"
)

// readKube reads Kubernetes objects from r as they come: one object, Lists of them, or several such documents one
// after another. No more than one object is in memory at a time. The error names the position of the first unreadable
// one; those before it are kept.
func (c *Collector) readKube(name string, r io.Reader) error {
	dec, before := json.NewDecoder(r), c.objects
	for {
		err := c.document(name, dec)
		came := fmt.Sprintf("after %s (%d bytes)", plaintext.Count(c.objects-before, "object"), dec.InputOffset())
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			return fmt.Errorf("%s: the JSON is cut off %s: write the file again; what came before is used", name, came)
		case err != nil:
			return fmt.Errorf("%s: %s: %w", name, came, err)
		}
	}
}

// document reads one JSON value: an object, or a List item by item. kubectl writes items before kind.
func (c *Collector) document(name string, dec *json.Decoder) error {
	fields, kind, items := map[string]json.RawMessage{}, "", false
	err := stream.Object(dec, func(key string) error {
		var raw json.RawMessage
		if key == "items" {
			items = true
			return stream.Array(dec, func() error {
				err := dec.Decode(&raw)
				if err == nil {
					c.object(name, strings.TrimSuffix(kind, "List"), raw)
				}
				return err
			})
		}
		err := dec.Decode(&raw)
		if fields[key] = raw; err == nil && key == "kind" {
			_ = json.Unmarshal(raw, &kind)
		}
		return err
	})
	switch {
	case err != nil || items:
		return err
	case kind == "":
		return errors.New("an object without kind: give what `kubectl get ... -o json` writes")
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	c.object(name, kind, raw)
	return nil
}

// object takes one object over. Secrets are not read.
func (c *Collector) object(file, kind string, raw json.RawMessage) {
	c.objects++
	var h struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(raw, &h); err != nil {
		c.trouble(file, fmt.Sprintf("object %d", c.objects), err.Error())
		return
	}
	if h.Kind = cmp.Or(h.Kind, kind); h.Kind == "" {
		c.trouble(file, fmt.Sprintf("object %d", c.objects), "it does not say its kind")
		return
	}
	read, ok := readers[h.Kind]
	if h.Kind == "List" {
		c.trouble(file, fmt.Sprintf("object %d", c.objects), "a List within a List is not read")
		return
	}
	if !ok {
		return
	}
	group, version, found := strings.Cut(h.APIVersion, "/")
	if !found {
		group, version = "", group
	}
	if h.APIVersion != "" && group != read.group {
		return // another project's object of the same kind
	}
	if h.APIVersion != "" && !slices.Contains(read.versions, version) {
		c.troubles.Addf(file+": "+h.Kind, "read are "+strings.Join(read.versions, ", "), "version %.60q is not known",
			h.APIVersion)
	}
	if err := read.take(c, file, raw); err != nil {
		c.trouble(file, fmt.Sprintf("%s (object %d)", h.Kind, c.objects), err.Error())
	}
}

// reader takes over the objects of a kind. A version that is not among versions is reported, and read nevertheless.
type reader struct {
	group    string
	versions []string
	take     func(c *Collector, file string, raw json.RawMessage) error
}

// taking decodes an object and hands it on.
func taking[T any](take func(c *Collector, file string, o *T)) func(*Collector, string, json.RawMessage) error {
	return func(c *Collector, file string, raw json.RawMessage) error {
		var o T
		err := json.Unmarshal(raw, &o)
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			// encoding/json goes on after a value of the wrong type.
			take(c, file, &o)
			key := keyStart.ReplaceAllStringFunc(wrong.Field, strings.ToLower)
			return fmt.Errorf("%s is a %s where a %s belongs; the rest is used", key, wrong.Value, wrong.Type)
		}
		if err == nil {
			take(c, file, &o)
		}
		return err
	}
}

// keyStart matches the letters of a field's path in Go that its keys have in lower case.
var keyStart = regexp.MustCompile(`\b([A-Z]+\b|[A-Z])`)

var readers map[string]*reader

func init() { // a composite literal would be an initialization cycle
	controller := func(kind, group string) *reader {
		return &reader{group, []string{"v1"}, taking(func(c *Collector, file string, o *controllerObject) {
			c.takeController(file, kind, o)
		})}
	}
	dra := []string{"v1", "v1beta2", "v1beta1"}
	readers = map[string]*reader{
		"Node":      {"", []string{"v1"}, taking((*Collector).takeNode)},
		"Pod":       {"", []string{"v1"}, taking((*Collector).takePod)},
		"ConfigMap": {"", []string{"v1"}, taking((*Collector).takeConfigMap)},
		"Status": {"", []string{"v1"}, taking(
			func(c *Collector, file string, o *statusObject) {
				c.troubles.Addf(file, "", "the API server refused: %.200q", o.Message)
			})},
		"Deployment":              controller("Deployment", "apps"),
		"StatefulSet":             controller("StatefulSet", "apps"),
		"ReplicaSet":              controller("ReplicaSet", "apps"),
		"DaemonSet":               controller("DaemonSet", "apps"),
		"Job":                     controller("Job", "batch"),
		"LeaderWorkerSet":         controller("LeaderWorkerSet", "leaderworkerset.x-k8s.io"),
		"HorizontalPodAutoscaler": {"autoscaling", []string{"v1", "v2", "v2beta2"}, taking((*Collector).takeAutoscaler)},
		"PodDisruptionBudget": {"policy", []string{"v1"}, taking(
			func(c *Collector, _ string, o *budgetObject) { c.budgets = append(c.budgets, o) })},
		"ResourceQuota": {"", []string{"v1"}, taking(
			func(c *Collector, _ string, o *quotaObject) { c.quotas = append(c.quotas, o) })},
		"DeviceClass":           {"resource.k8s.io", dra, taking((*Collector).takeDeviceClass)},
		"ResourceSlice":         {"resource.k8s.io", dra, taking((*Collector).takeSlice)},
		"ResourceClaim":         {"resource.k8s.io", dra, taking((*Collector).takeClaim)},
		"ResourceClaimTemplate": {"resource.k8s.io", dra, taking((*Collector).takeClaimTemplate)},
	}
}
