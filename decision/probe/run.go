package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cotenant/cotenant/internal/stats"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/timeslice"
)

// Names of measurements. Those of the first block are parameters of a
// predict.Predictor, whose documentation has their meaning.
const (
	Quantum      = "quantum"        // ms
	Switch       = "switch"         // ms
	SliceLoss    = "slice_loss"     // ms, of work that reads memory
	LoneStepCost = "lone_step_cost" // ms, of a step of 256 kernels

	EarlyEnd        = "early_end_loss"   // ms lost, beyond two switches, when work ends within its slice
	KernelLaunch    = "kernel_launch"    // us for each kernel of next to no work that is launched by itself
	MPSLaunchCost   = "mps_launch_cost"  // us that MPS adds to each
	DRAMRead        = "dram_read"        // GB/s
	DRAMReadMPS     = "dram_read_mps"    // of a lone MPS client
	DRAMReadShared  = "dram_read_shared" // of two MPS clients together
	ToDevice        = "host_to_device"   // GB/s, pinned memory
	FromDevice      = "device_to_host"
	SMsAtPercentage = "sms_at_%v_percent"

	// Times longer than alone under MPS: a step of short kernels beside neighbours of
	// four kinds, and theirs beside it.
	ShortBesideThread = "short_beside_one_thread"
	ThreadBesideShort = "one_thread_beside_short"
	ShortBesideLong   = "short_beside_long_kernels"
	LongBesideShort   = "long_kernels_beside_short"
	ShortBesideFull   = "short_beside_compute_bound"
	FullBesideShort   = "compute_bound_beside_short"
	ShortBesideRead   = "short_beside_bandwidth_bound"
	ReadBesideShort   = "bandwidth_bound_beside_short"
)

// How long things last, and how much of something is too much.
const (
	shortKernel      = 6 * time.Microsecond
	shortKernels     = 256
	pairFor          = 800 * time.Millisecond
	loneFor          = 400 * time.Millisecond
	neighbourBefore  = 150 * time.Millisecond
	neighbourAfter   = 150 * time.Millisecond
	leastMemory      = 1 << 30
	suspiciousShare  = 0.002
	suspiciousMisfit = 0.03
)

// percentages are those at which SMs are read back.
var percentages = []float64{10, 25, 50, 75, 100}

// Names lists all that a probe measures, in order.
func Names() []string {
	names := []string{Quantum, Switch, SliceLoss, EarlyEnd, KernelLaunch, DRAMRead, ToDevice, FromDevice,
		LoneStepCost, MPSLaunchCost, ShortBesideThread, ThreadBesideShort, ShortBesideLong, LongBesideShort, ShortBesideFull, FullBesideShort,
		ShortBesideRead, ReadBesideShort, DRAMReadMPS, DRAMReadShared}
	for _, p := range percentages {
		names = append(names, fmt.Sprintf(SMsAtPercentage, p))
	}
	return names
}

// Options say how to probe. The zero value is a whole probe.
type Options struct {
	// Progress is told what is done next, and how far the probe is.
	Progress func(what string, doneFraction float64)
}

// run is a probe under way.
type run struct {
	Result
	site Site
	opts Options
	// What steps of kinds of work take alone, without MPS and with it; 0 is not
	// measured.
	exchange, launches, shortMPS time.Duration
}

// stage is a part of a probe, and what it measures.
type stage struct {
	what     string
	measures []string
	do       func(ctx context.Context) error
}

// Run probes the site's GPU. It returns an error where nothing could be measured,
// when somebody else runs on the GPU (ErrStranger), or when ctx ends; a result
// that comes with it holds what was measured until then. What cannot be measured
// for another reason stands in NotMeasured.
func Run(ctx context.Context, site Site, opts Options) (*Result, error) {
	r := &run{site: site, opts: opts}
	began := time.Now()
	r.Basis = site.Basis()
	var err error
	if r.Info, err = site.Info(ctx); err != nil {
		return nil, err
	}
	if r.Info.Free > 0 && r.Info.Free < leastMemory {
		return nil, fmt.Errorf("probe: %.0f MiB of the GPU's memory are free and %v are needed: stop what holds it", float64(r.Info.Free)/float64(sharing.MiB), sharing.Bytes(leastMemory))
	}
	for _, o := range r.Info.Others {
		r.Warnings = append(r.Warnings, o+" holds the GPU too: what it does is part of what was measured")
	}
	err = r.stages(ctx)
	r.Took = time.Since(began)
	for _, name := range Names() {
		_, known := r.Get(name)
		if !known && !slices.ContainsFunc(r.NotMeasured, func(n NotMeasured) bool { return n.Name == name }) {
			r.NotMeasured = append(r.NotMeasured, NotMeasured{name, "the probe ended before"})
		}
	}
	if err == nil && len(r.Measured) == 0 {
		err = fmt.Errorf("probe: nothing could be measured: %s", r.NotMeasured[0].Why)
	}
	return &r.Result, err
}

func (r *run) stages(ctx context.Context) error {
	all := []stage{
		{"a lone process, memory and copies", []string{KernelLaunch, DRAMRead, ToDevice, FromDevice}, r.lone},
		{"turns of 2 and 4 processes", []string{Quantum, Switch}, r.turns},
		{"work over many slices", []string{SliceLoss}, r.resumed},
		{"work that ends within its slice", []string{EarlyEnd}, r.early},
		{"MPS: a lone client", []string{LoneStepCost, MPSLaunchCost}, r.loneClient},
		{"MPS: short kernels beside one busy thread", []string{ShortBesideThread, ThreadBesideShort}, r.beside(oneThread, ShortBesideThread, ThreadBesideShort)},
		{"MPS: short kernels beside long ones", []string{ShortBesideLong, LongBesideShort}, r.beside(longKernels, ShortBesideLong, LongBesideShort)},
		{"MPS: short kernels beside a full GPU", []string{ShortBesideFull, FullBesideShort}, r.beside(fullKernels, ShortBesideFull, FullBesideShort)},
		{"MPS: short kernels beside reading", []string{ShortBesideRead, ReadBesideShort}, r.beside(reads, ShortBesideRead, ReadBesideShort)},
		{"MPS: one that reads, and two", []string{DRAMReadMPS, DRAMReadShared}, r.readShared},
		{"MPS: percentages", Names()[len(Names())-len(percentages):], r.percentages},
	}
	for i, s := range all {
		if opts := r.opts; opts.Progress != nil {
			opts.Progress(s.what, float64(i)/float64(len(all)))
		}
		err := s.do(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("probe: interrupted: %w", context.Cause(ctx))
		}
		if err == nil {
			continue
		}
		for _, name := range s.measures {
			if _, known := r.Get(name); !known {
				r.NotMeasured = append(r.NotMeasured, NotMeasured{name, err.Error()})
			}
		}
		if errors.Is(err, ErrStranger) {
			return err
		}
	}
	return nil
}

// Steps that stand for kinds of work. What fills the GPU has 2,048 threads an SM.
func shortSteps(d time.Duration) Task {
	return Task{Kind: KindCompute, Kernels: shortKernels, Kernel: shortKernel, PerSM: 1, For: d}
}
func exchangeSteps(d time.Duration) Task {
	t := shortSteps(d)
	t.Exchange = true
	return t
}
func launchSteps(d time.Duration) Task {
	return Task{Kind: KindCompute, Kernels: shortKernels, OneByOne: true, Kernel: time.Microsecond, For: d}
}
func oneThread(d time.Duration) Task {
	return Task{Kind: KindCompute, Kernels: 4, Kernel: time.Millisecond, For: d}
}
func longKernels(d time.Duration) Task {
	return Task{Kind: KindCompute, Kernels: 4, Kernel: time.Millisecond, PerSM: 8, For: d}
}
func fullKernels(d time.Duration) Task {
	return Task{Kind: KindCompute, Kernels: 160, Kernel: 25 * time.Microsecond, PerSM: 8, For: d}
}
func reads(d time.Duration) Task {
	return Task{Kind: KindStream, Kernels: 40, Bytes: 256 << 20, PerSM: 8, For: d}
}
func copies(k Kind) Task { return Task{Kind: k, Bytes: 64 << 20, For: loneFor / 2} }

// lone looks whether anybody else is on the GPU, and measures what needs no
// neighbour.
func (r *run) lone(ctx context.Context) error {
	if err := r.lookAround(ctx); err != nil {
		return err
	}
	for _, t := range []struct {
		Task
		to *time.Duration
	}{{exchangeSteps(loneFor), &r.exchange}, {launchSteps(loneFor), &r.launches}} {
		steps, err := r.steps(ctx, sharing.MechanismTimeSlicing, t.Task)
		if err != nil {
			return err
		}
		if *t.to = middle(steps); t.OneByOne {
			r.measure(KernelLaunch, "us", steps, eachLaunch, fmt.Sprintf("%d kernels of next to no work, launched one by one, for each", shortKernels))
		}
	}
	var errs []error
	for _, t := range []struct {
		name string
		Task
		what string
	}{
		{DRAMRead, reads(loneFor), "kernels that read 256 MiB each"},
		{ToDevice, copies(KindToDevice), "copies of 64 MiB from pinned memory"},
		{FromDevice, copies(KindFromDevice), "copies of 64 MiB to pinned memory"},
	} {
		readings, err := r.site.Run(ctx, sharing.MechanismTimeSlicing, t.Task)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r.measure(t.name, "GB/s", readings[0].Steps, rate(readings[0].Bytes), t.what)
	}
	return errors.Join(errs...)
}

// ErrStranger says that somebody else had the GPU while the probe ran.
var ErrStranger = errors.New("probe: another process ran on the GPU")

// lookAround spins alone: whoever else runs shows as time off the GPU.
func (r *run) lookAround(ctx context.Context) error {
	readings, err := r.site.Run(ctx, sharing.MechanismTimeSlicing, Task{Kind: KindSpin, For: loneFor})
	if err != nil {
		return err
	}
	if share, n := away(readings[0]); share > suspiciousShare {
		return fmt.Errorf("%w: a lone process was off it %d times, %.1f%% of its time; stop the other and probe again", ErrStranger, n, 100*share)
	}
	return nil
}

func (r *run) turns(ctx context.Context) error {
	if r.Info.Exclusive {
		return errors.New("the GPU's compute mode admits one process only, so processes never take turns on it")
	}
	if err := r.lookAround(ctx); err != nil {
		return err
	}
	var runs []timeslice.ProbeRun
	var on []time.Duration
	var seen []*turns
	for _, n := range []int{2, 4} {
		d := time.Duration(n) * 600 * time.Millisecond
		readings, err := r.site.Run(ctx, sharing.MechanismTimeSlicing, slices.Repeat([]Task{{Kind: KindSpin, For: d}}, n)...)
		if err != nil {
			return fmt.Errorf("%d processes at once: %w", n, err)
		}
		t, err := turnsOf(readings)
		if err != nil {
			return err
		}
		runs, on, seen = append(runs, t.probe), append(on, t.on...), append(seen, t)
		r.lanes(t)
	}
	c, err := timeslice.CalibrateProbe(runs...)
	if err != nil {
		return err
	}
	if c.WorstErrorFraction > suspiciousMisfit {
		return fmt.Errorf("%w, as it seems: 2 and 4 processes do not give the same quantum and switch (they differ by %.0f%%)", ErrStranger, 100*c.WorstErrorFraction)
	}
	r.measureAs(Quantum, "ms", millis(c.Scheduler.Quantum), on, millis, "time on the GPU of 2 and 4 spinning processes")
	var switches []time.Duration
	for _, t := range seen {
		switches = append(switches, t.switches(c.Scheduler.Quantum)...)
	}
	r.measureAs(Switch, "ms", millis(c.Scheduler.Switch), switches, millis, "time off the GPU of 2 and 4 spinning processes, beyond the others' slices")
	return nil
}

// shownLanes is how much of the turns a result keeps.
const shownLanes = 40 * time.Millisecond

func (r *run) lanes(t *turns) {
	var first time.Duration
	for i, lane := range t.lanes {
		if i == 0 || lane[0].From < first {
			first = lane[0].From
		}
	}
	for i, lane := range t.lanes {
		l := Lane{Processes: t.tenants, Process: i + 1}
		for _, on := range lane {
			if on.From-first > shownLanes {
				break
			}
			l.On = append(l.On, [2]float64{millis(on.From - first), millis(on.To - first)})
		}
		r.Lanes = append(r.Lanes, l)
	}
}

// resumed has work that reads memory go on over many slices, beside a process
// that spins: what its slices get less done than their length is lost to it.
func (r *run) resumed(ctx context.Context) error {
	quantum, ok1 := r.Get(Quantum)
	change, ok2 := r.Get(Switch)
	if !ok1 || !ok2 {
		return errors.New("quantum and switch were not measured")
	}
	long := reads(0) // one step is work enough
	long.Kernels = resumedKernels
	alone, err := r.site.Run(ctx, sharing.MechanismTimeSlicing, long)
	if err != nil {
		return err
	}
	lone := middle(alone[0].Steps)
	beside := long
	beside.Delay = 50 * time.Millisecond
	round := 2 * (quantum.Value + change.Value)
	spin := time.Duration(float64(4*lone)*round/quantum.Value) + 500*time.Millisecond // it makes itself ready with two more steps
	readings, err := r.site.Run(ctx, sharing.MechanismTimeSlicing, Task{Kind: KindSpin, For: spin}, beside)
	if err != nil {
		return err
	}
	r.measure(SliceLoss, "ms", readings[1].Steps, func(d time.Duration) float64 { return quantum.Value - round*float64(lone)/float64(d) },
		fmt.Sprintf("%v of reading memory, beside a spinning process", lone.Round(time.Millisecond)))
	return nil
}

// resumedKernels of the reading steps take some 100 ms.
const resumedKernels = 1000

// early has work end within its slice, beside a process that spins.
func (r *run) early(ctx context.Context) error {
	quantum, ok1 := r.Get(Quantum)
	change, ok2 := r.Get(Switch)
	if !ok1 || !ok2 {
		return errors.New("quantum and switch were not measured")
	}
	var lost []time.Duration
	for _, part := range []float64{0.1, 0.3, 0.6} {
		pulse := time.Duration(part * quantum.Value * float64(time.Millisecond))
		readings, err := r.site.Run(ctx, sharing.MechanismTimeSlicing,
			Task{Kind: KindSpin, For: 700 * time.Millisecond}, Task{Kind: KindPulse, Kernel: pulse, Pause: time.Millisecond, Delay: 50 * time.Millisecond, For: 600 * time.Millisecond})
		if err != nil {
			return err
		}
		h := handoversOf(readings[0], readings[1])
		for i := range h.in {
			lost = append(lost, h.in[i]+h.out[i]-time.Duration(2*change.Value*float64(time.Millisecond)))
		}
	}
	if len(lost) < 20 {
		return fmt.Errorf("only %d pieces of work ran within one slice", len(lost))
	}
	slices.Sort(lost)
	r.measure(EarlyEnd, "ms", lost, millis, "work of a tenth, a third and two thirds of a slice, beside a spinning process")
	return nil
}

// steps runs one task alone and returns what its steps took.
func (r *run) steps(ctx context.Context, m sharing.Mechanism, t Task) ([]time.Duration, error) {
	readings, err := r.site.Run(ctx, m, t)
	if err != nil {
		return nil, err
	}
	if len(readings[0].Steps) < 5 {
		return nil, fmt.Errorf("only %d steps ended in %v", len(readings[0].Steps), t.For)
	}
	return readings[0].Steps, nil
}

// measure keeps the median of observations, of which there is at least one.
func (r *run) measure(name, unit string, d []time.Duration, in func(time.Duration) float64, what string) {
	r.measureAs(name, unit, in(middle(d)), d, in, what)
}

func (r *run) measureAs(name, unit string, value float64, d []time.Duration, in func(time.Duration) float64, what string) {
	s := slices.Sorted(slices.Values(d))
	low, high := in(stats.NearestRank(s, .1)), in(stats.NearestRank(s, .9))
	r.Measured = append(r.Measured, Measurement{name, value, unit, min(low, high, value), max(low, high, value), len(s), what})
}

func middle(d []time.Duration) time.Duration {
	return stats.NearestRank(slices.Sorted(slices.Values(d)), .5)
}

func eachLaunch(d time.Duration) float64 { return micros(d) / shortKernels }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// rate turns the time for a number of bytes into GB/s.
func rate(bytes int64) func(time.Duration) float64 {
	return func(d time.Duration) float64 { return float64(bytes) / float64(d) }
}
