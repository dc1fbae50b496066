// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"math"
	"time"

	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// taskPrior is a published median of the work of a usual request of a task, with a model of a size on an L4 (300 GB/s).
type taskPrior struct {
	gpu, host  time.Duration
	parameters float64
	sigma      float64 // standard deviation of the logarithm of gpu over published figures
	request    string
	tokens     float64 // of a usual request; 0 = its length counts otherwise
}

// taskPriors are near the rows of testdata/nontoken-servers.json, with their scatter as sigma; it has no diffusion.
var taskPriors = map[Task]taskPrior{
	"embedding":      {4 * time.Millisecond, 6 * time.Millisecond, 0.11e9, 0.6, "a text of 256 tokens", 256},
	"reranking":      {40 * time.Millisecond, 5 * time.Millisecond, 0.57e9, 0.6, "a query with 50 documents", 0},
	"speech-to-text": {400 * time.Millisecond, 40 * time.Millisecond, 1.55e9, 0.6, "30 s of speech", 0},
	"text-to-speech": {60 * time.Millisecond, 10 * time.Millisecond, 0.082e9, 1.6, "a sentence", 0},
	"vision":         {4 * time.Millisecond, 4 * time.Millisecond, 0.03e9, 1.6, "an image", 0},
}

const (
	priorBandwidth = 300 // GB/s of an L4
	sizeGrowth     = 0.7 // GPU time grows with this power of the parameters
	statedSigma    = 0.1 // of times that are stated, and of the queue's formula
	carriedSigma   = 0.4 // of times that were stated of another GPU
)

// RequestTime is the time of a service's mean request, isolated on a whole GPU, in seconds.
type RequestTime struct {
	GPU, Host float64
	Sigma     float64 // standard deviation of the logarithm
	Assumed   string  // names the figures from a prior; "" = all stated
}

// RequestTime returns the time of a request on a GPU: as stated, or by its task, the size of its model and the GPU's
// bandwidth. known is false if the service states neither.
func (w *Workload) RequestTime(gpu *sharing.GPU) (t RequestTime, known bool) {
	s := w.Service
	t.Sigma = statedSigma
	g, stated := s.GPUTime.Get()
	t.GPU, t.Host = time.Duration(g).Seconds(), time.Duration(s.HostTime.Or(0)).Seconds()
	bandwidth, has := gpu.MemoryBandwidthGBps.Get()
	if from, err := sharing.LookupGPU(s.GPU); stated && s.GPU != "" && err == nil && from != gpu {
		on, known := from.MemoryBandwidthGBps.Get()
		t.GPU, t.Sigma = t.GPU*on/bandwidth, carriedSigma
		t.Assumed = fmt.Sprintf("a request of %s takes %.3g ms of %s: its %s of %s by their bandwidths", w.Name, 1e3*t.GPU,
			gpu.Name, time.Duration(g), from.Name)
		return t, known && has
	}
	if stated {
		return t, true
	}
	p := taskPriors[s.Task]
	if p.gpu == 0 || w.Model == nil || !has {
		return t, false
	}
	t.GPU = p.gpu.Seconds() * math.Pow(float64(w.Model.Parameters)/p.parameters, sizeGrowth) * priorBandwidth / bandwidth
	if w.Load != nil && p.tokens > 0 {
		t.GPU *= float64(w.Load.InputTokens.Or(int(p.tokens))) / p.tokens
	}
	if s.HostTime.IsZero() {
		t.Host = p.host.Seconds()
	}
	t.Sigma = p.sigma
	t.Assumed = fmt.Sprintf("a request of %s takes %.3g ms of %s, and %.3g ms of the host: %s, by its task and model",
		w.Name, 1e3*t.GPU, gpu.Name, 1e3*t.Host, p.request)
	return t, true
}

// service checks a service's fields, and that at least one figure gives the time of its requests.
func (c *checker) service(path string, w *Workload) {
	s := w.Service
	if s == nil {
		return
	}
	gpu, stated := s.GPUTime.Get()
	oneOf(c, path+".task", s.Task, tasks)
	c.If(!w.Kind.Serves() && w.Kind != "", path, "write kind: online-inference", "requests come to no %s", w.Kind)
	c.If(stated && gpu <= 0, path+".gpu_time", "leave out what is not known", "%s is no time", time.Duration(gpu))
	if s.GPU != "" {
		_, err := sharing.LookupGPU(s.GPU)
		c.AddErr(path+".gpu", err)
	}
	c.If(s.HostTime.Or(0) < 0, path+".host_time", "", "is negative")
	if b := s.Batch; b != nil {
		c.within(path+".batch.max", b.Max, 1, 65536)
		c.If(b.Wait < 0, path+".batch.wait", "", "is negative")
	}
	c.If(!stated && w.GPUBusy.IsZero() && (w.Model == nil || taskPriors[s.Task].gpu == 0), path,
		"state gpu_time of a request, or gpu_busy of a replica, or a task (not diffusion) with the model's parameters: "+
			"one is enough", "nothing states how long a request takes")
	tokens := w.SLO
	tokens.E2EP99 = sharing.Optional[profile.Duration]{}
	c.If(tokens != (profile.SLO{}), path, "limit e2e_p99, or leave service out",
		"it speaks no tokens, and slo limits theirs")
	if l := w.Load; l != nil && stated && w.Replicas.Max > 0 {
		perS := l.PeakPerS() / float64(w.ReplicaCount())
		share := perS * time.Duration(gpu).Seconds()
		c.If(share > 1, path+".gpu_time", "state more replicas, or replicas: auto",
			"%.4g requests/s of each replica are %.2f seconds of GPU time a second", perS, share)
	}
}
