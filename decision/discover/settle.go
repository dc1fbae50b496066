package discover

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

// ErrSettled says that a Job would measure nothing: every workload's memory and busy time are known, or none of those
// that lack them runs on a node.
var ErrSettled = errors.New("discover: there is nothing that a Job on a node can measure")

// settling is a node with what a Job there would measure.
type settling struct {
	Node, Image, Watch string
	Minutes            int
	Pods               []settledPod // those that run there, by UID
	Unknown            []string     // the paths that it settles

	stake int64 // micro-units a month
}

type settledPod struct{ UID, Namespace, Name string }

//go:embed settle.yaml.tmpl
var settleText string

var settleTemplate = template.Must(template.New("job").Parse(settleText))

const (
	// settleImage has a shell and no libraries of its own: the NVIDIA container runtime adds nvidia-smi of the driver.
	settleImage   = "docker.io/library/ubuntu:24.04"
	settleMinutes = 60
	settleEvery   = "15"
)

// plainName keeps what could be more than a name out of a script.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9./]*$`)

// WriteSettleJob writes a Kubernetes Job (YAML) that measures memory and utilization of each pod's own processes for
// an hour, on the node where most money hangs on what no input says of its workloads. It asks for no GPU, so it can
// run beside them, and prints a page that [Collector.Read] takes. The error matches ErrSettled where there is nothing
// to measure so.
func (d *Discovery) WriteSettleJob(w io.Writer) error {
	nodes := slices.Collect(maps.Values(d.settle))
	if len(nodes) == 0 {
		return ErrSettled
	}
	slices.SortFunc(nodes, func(x, y *settling) int {
		return cmp.Or(cmp.Compare(y.stake, x.stake), cmp.Compare(len(y.Unknown), len(x.Unknown)),
			strings.Compare(x.Node, y.Node))
	})
	s := *nodes[0]
	s.Image, s.Minutes, s.Watch = settleImage, settleMinutes, settleEvery
	var out bytes.Buffer
	if err := settleTemplate.Execute(&out, s); err != nil {
		return fmt.Errorf("discover: %w", err)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// settling notes an unknown figure of a workload at the nodes on which it runs, with its part of the stake.
func (b *build) settling(w *workload, path string, stake int64) {
	on := map[*node]int{}
	running := 0
	for _, p := range w.pods {
		if n := b.byName[p.node]; n != nil && n.meta != nil && p.running && plainName.MatchString(n.name) {
			on[n]++
			running++
		}
	}
	for n, pods := range on {
		s := b.settle[n.name]
		if s == nil {
			s = &settling{Node: n.name}
			b.settle[n.name] = s
			for _, v := range b.whoOn(n) {
				for _, p := range v.pods {
					uid := b.c.podUIDs[p.namespace+"/"+p.name]
					if p.node == n.name && plainName.MatchString(uid+"/"+p.namespace+"/"+p.name) {
						s.Pods = append(s.Pods, settledPod{uid, p.namespace, p.name})
					}
				}
			}
			slices.SortFunc(s.Pods, func(x, y settledPod) int { return strings.Compare(x.UID, y.UID) })
		}
		s.stake += stake / int64(running) * int64(pods)
		s.Unknown = append(s.Unknown, path)
	}
}
