// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/discover/internal/nvsmi"
	"github.com/cotenant/cotenant/decision/discover/internal/stream"
	"github.com/cotenant/cotenant/decision/discover/internal/usage"
	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/telemetry/serving"
)

const sniffed = 32 << 10 // the number of bytes of a file that show its kind

// Read reads a file and finds its kind from its content; name identifies it in errors and findings. The error lists the
// parts that can't be read; [Collector.Discover] uses the rest.
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
		rs, err := serving.Parse(in)
		return c.keepServing(name, rs, err)
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
	line, _, _ := strings.Cut(string(text), "\n")
	return fmt.Errorf("%s: it is of no kind that is read (it begins with %.40q): give Kubernetes objects as JSON, what "+
		"nvidia-smi -q -x printed, samples of dcgm-exporter, or a model server's metrics", name, line)
}

// ReadFile is [Collector.Read] of a file, or of stdin if its name is "-".
func (c *Collector) ReadFile(file string, stdin io.Reader) error {
	if file == "-" {
		return c.Read("standard input", stdin)
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return c.Read(file, f)
}

const mostArrivals = 64 << 20 // bytes

// LoadArrivals reads a YAML or JSON file of objects that are not yet in the cluster, such as the Deployment of a pull
// request: their workloads, without a today, and with a request only for MIG instances. hints names a file of hints, or
// is ""; fields without annotation or hint are unknown. Errors of their content match ErrInvalid.
func LoadArrivals(name, hints string) ([]decision.Workload, error) {
	opts, err := LoadOptions("", hints)
	if err != nil {
		return nil, err
	}
	data, err := strictyaml.ReadFile(name, strictyaml.Options{MaxBytes: mostArrivals})
	if err != nil {
		return nil, err
	}
	c := New(opts)
	for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc map[string]any
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		var text []byte
		if err == nil {
			text, err = json.Marshal(doc)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, name, err)
		}
		if len(doc) == 0 {
			continue
		}
		if err := c.Read(name, bytes.NewReader(text)); err != nil {
			return nil, err
		}
	}
	d := c.Discover()
	for i := range d.Fleet.Workloads {
		w := &d.Fleet.Workloads[i]
		if w.Today = nil; w.Request != nil && w.Request.Profile == "" { // else its pods start on no other device
			w.Request = nil
		}
	}
	if len(d.Fleet.Workloads) == 0 {
		return nil, fmt.Errorf("%w: %s: nothing in it asks for a GPU", ErrInvalid, name)
	}
	return d.Fleet.Workloads, nil
}

// The resolution of a range query, and how long it may take.
const (
	prometheusStep    = 5 * time.Minute
	prometheusTimeout = time.Minute
)

// ReadPrometheus reads the series of dcgm-exporter, vLLM and SGLang in the window before end from a Prometheus server
// (http://HOST:9090, with a path or user:password@ if needed), by one range query, as Read does. An answer that is
// incomplete after a minute is used, and the error reports the missing rest.
func (c *Collector) ReadPrometheus(ctx context.Context, server string, end time.Time, window time.Duration) error {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%w: %q is no URL of a Prometheus server: write http://HOST:9090", ErrInvalid, server)
	}
	name := u.Redacted()
	u = u.JoinPath("api/v1/query_range")
	at := func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
	u.RawQuery = url.Values{"query": {usage.Query()}, "start": {at(end.Add(-window))}, "end": {at(end)},
		"step": {at(time.Unix(0, 0).Add(prometheusStep))}}.Encode()
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, prometheusTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("discover: %s: %w", name, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden ||
			strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
			return fmt.Errorf("%w: %s wants a login (%s): write https://USER:PASSWORD@HOST, or reach the server itself: "+
				"kubectl port-forward -n NAMESPACE svc/PROMETHEUS 9090, then http://localhost:9090", ErrInvalid, name, resp.Status)
		}
		if err = c.Read(name, resp.Body); err != nil && resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%w (%s)", err, resp.Status)
		}
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("discover: %s did not answer in full in %s: what had come is used; try again, or save its answer "+
			"to a file and give that", name, span(time.Since(began)))
	}
	return err
}

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
	err, at := json.Unmarshal(raw, &h), fmt.Sprintf("object %d", c.objects)
	switch h.Kind = cmp.Or(h.Kind, kind); {
	case err != nil:
		c.trouble(file, at, "%v", err)
		return
	case h.Kind == "":
		c.trouble(file, at, "it does not say its kind")
		return
	case h.Kind == "List":
		c.trouble(file, at, "a List within a List is not read")
		return
	}
	read, ok := readers[h.Kind]
	group, version, found := strings.Cut(h.APIVersion, "/")
	if !found {
		group, version = "", group
	}
	if !ok || h.APIVersion != "" && group != read.group {
		return // or another project's object of the same kind
	}
	if h.APIVersion != "" && !slices.Contains(read.versions, version) {
		c.troubles.Addf(file+": "+h.Kind, "read are "+strings.Join(read.versions, ", "), "version %.60q is not known",
			h.APIVersion)
	}
	if err := read.take(c, file, raw); err != nil {
		c.trouble(file, h.Kind+" ("+at+")", "%v", err)
	}
}

// reader takes over the objects of a kind. A version that is not among versions is reported, and read nevertheless.
type reader struct {
	group    string
	versions []string
	take     func(c *Collector, file string, raw json.RawMessage) error
}

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
	dra, v1 := []string{"v1", "v1beta2", "v1beta1"}, []string{"v1"}
	readers = map[string]*reader{
		"Node":      {"", v1, taking((*Collector).takeNode)},
		"Pod":       {"", v1, taking((*Collector).takePod)},
		"ConfigMap": {"", v1, taking((*Collector).takeConfigMap)},
		"Status": {"", v1, taking(func(c *Collector, file string, o *struct{ Message string }) {
			c.troubles.Addf(file, "", "the API server refused: %.200q", o.Message)
		})},
		"HorizontalPodAutoscaler": {"autoscaling", []string{"v1", "v2", "v2beta2"}, taking((*Collector).takeAutoscaler)},
		"PodDisruptionBudget": {"policy", v1, taking(func(c *Collector, _ string, o *budgetObject) {
			c.budgets = append(c.budgets, o)
		})},
		"ResourceQuota": {"", v1, taking(func(c *Collector, _ string, o *quotaObject) {
			c.quotas = append(c.quotas, o)
		})},
		"DeviceClass":           {"resource.k8s.io", dra, taking((*Collector).takeDeviceClass)},
		"ResourceSlice":         {"resource.k8s.io", dra, taking((*Collector).takeSlice)},
		"ResourceClaim":         {"resource.k8s.io", dra, taking((*Collector).takeClaim)},
		"ResourceClaimTemplate": {"resource.k8s.io", dra, taking((*Collector).takeClaimTemplate)},
	}
	for kind, group := range names().Controllers {
		readers[kind] = &reader{group, v1, taking(func(c *Collector, file string, o *controllerObject) {
			c.takeController(file, kind, o)
		})}
	}
}
