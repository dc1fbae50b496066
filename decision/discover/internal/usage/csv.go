package usage

import (
	"io"
	"time"

	"github.com/cotenant/cotenant/internal/optional"
	"github.com/cotenant/cotenant/telemetry"
)

// Telemetry reads the CSV that package telemetry writes on a node; node is the
// node's name, empty where it is not known. MIG instances have keys of their
// own. The error names the problems of this source; what could be read counts.
func (r *Reader) Telemetry(name string, in io.Reader, node string) error {
	src, before := r.begin(name, "telemetry csv"), r.probs.Len()
	err := telemetry.CopyCSV(&csvSink{r: r, src: src, node: node}, in)
	r.problems(src, err)
	return r.end(src, before)
}

type csvSink struct {
	r         *Reader
	src       *Source
	node      string
	start     time.Time
	devices   []*tenant
	instances map[[2]int]*tenant
	uuids     []string
}

// Begin takes the header: the devices.
func (c *csvSink) Begin(h telemetry.Header) error {
	c.start, c.instances = h.Start, map[[2]int]*tenant{}
	for i, d := range h.Devices {
		c.uuids = append(c.uuids, d.UUID)
		c.devices = append(c.devices, c.r.tenant(c.src, rawKey{Key: Key{Node: c.node, GPU: d.UUID, Index: optional.Of(i)}}))
		c.src.Series++
	}
	if h.Info.Basis.String() == "simulated" {
		c.r.problem(c.src, "", "measure, or keep it apart", "its figures are simulated")
	}
	return nil
}

// Sample takes the figures of a device and its instances.
func (c *csvSink) Sample(x *telemetry.Sample) error {
	ms := c.start.Add(x.At).UnixMilli()
	if t := c.devices[x.Device]; t != nil {
		c.figures(t, ms, x.Get)
	}
	for i := range x.Instances {
		in := &x.Instances[i]
		at := [2]int{x.Device, in.ID}
		t := c.instances[at]
		if t == nil {
			t = c.r.tenant(c.src, rawKey{Key: Key{Node: c.node, GPU: c.uuids[x.Device], Index: optional.Of(x.Device),
				Instance: optional.Of(in.ID)}})
			if t == nil {
				continue
			}
			c.instances[at] = t
		}
		c.figures(t, ms, in.Get)
	}
	return nil
}

func (c *csvSink) figures(t *tenant, ms int64, get func(telemetry.Metric) (float64, bool)) {
	for m, f := range telemetryFigures {
		if v, ok := get(m); ok {
			c.r.sample(c.src, t, f, ms, v)
		}
	}
}

// Event takes nothing: losses show as gaps.
func (c *csvSink) Event(telemetry.Event) error { return nil }
