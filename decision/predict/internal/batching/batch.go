package batching

import "math"

// admit lets waiting requests in while there is room: one where prefills run alone, as many as a step computes
// where they run in chunks. It returns how long an adapter must be loaded for, first.
func (r *Replica) admit(now float64) (load float64) {
	room := 1
	if r.Rates.chunk > 0 {
		room = r.Rates.chunk - len(r.Running)
	}
	for _, f := range r.Entered {
		room -= f.Left
	}
	for skip := 0; room > 0 && skip < r.Waiting.Len() && r.Rest.admits(); {
		f := r.Waiting.at(skip)
		if len(r.Running)+len(r.Entered) >= r.Rates.Sequences {
			r.block(f, BlockedSequences)
			return 0
		}
		if f.Adapter > 0 {
			switch ms := r.LoRA.need(f.Adapter, &r.Rates); {
			case ms < 0: // every slot is in use: later ones may go first
				r.block(f, BlockedAdapter)
				if skip++; skip >= mostSkipped {
					return 0
				}
				continue
			case ms > 0:
				r.Stats.AdapterLoads++
				return ms
			}
		}
		if !r.allocate(f) {
			r.block(f, BlockedKV)
			return 0
		}
		r.Waiting.remove(skip)
		r.LoRA.hold(f.Adapter)
		f.Left = f.Prompt - f.Cached
		r.Pending -= f.Cached
		r.Entered = append(r.Entered, f)
		room -= f.Left
		if r.Rates.chunk == 0 {
			return 0
		}
	}
	return 0
}

// mostSkipped bounds the requests that are passed over for want of an adapter's slot.
const mostSkipped = 64

func (r *Replica) block(f *Flight, by blocker) {
	if f.blocked == blockedNot {
		f.blocked = by
		r.Stats.Blocked[by]++
	}
}

// allocate reserves the KV cache of a request's prompt, and of the tokens that it had been given when it was preempted.
func (r *Replica) allocate(f *Flight) bool {
	tokens := f.Input + f.done
	units := f.Prefix
	if r.Unit == 0 {
		units = nil
	} else if n := f.Input / r.Unit; len(units) > n {
		units = units[:n]
	}
	whole := len(units) * r.Unit
	end, hits, ok := r.KV.Admit(units, blocksOf(tokens-whole, r.Size), r.blocksFor(1))
	if !ok {
		return false
	}
	f.end, f.whole, f.Prompt = end, whole, tokens
	f.Cached = min(hits*r.Unit, tokens-1) // the last token is always computed
	return true
}

// PrefillNext computes prompts: the first whole one, or as much as a step holds beside those that decode.
func (r *Replica) PrefillNext(now float64) {
	a := Activity{Kind: Prefilling, units: 1, Share: r.Rates.PrefillSM}
	if r.Rates.chunk == 0 {
		f := r.Entered[0]
		a.GPU = r.Rates.beside(r.Rates.SlowPrefill*r.compute(f, f.Left), r.Rates.Busy*r.Rates.Prefill)
		a.Host = max(0, r.Rates.Prefill-a.GPU) + r.Rates.HostToken*float64(f.Left) + r.Rates.request
		if f.Adapter > 0 {
			a.Host += r.Rates.loraPrefill
		}
		r.begin(now, a)
		return
	}
	if r.makeRoom(); len(r.Entered) == 0 {
		r.Decode(now)
		return
	}
	n := len(r.Running)
	if r.Rates.PrefillsFirst {
		n = 0
	}
	budget, adapted := r.Rates.chunk-n, 0.0
	compute, fresh := 0.0, 0.0
	if !r.Rates.adds {
		compute = r.Rates.Token * float64(n)
	}
	for _, f := range r.Entered {
		part := min(f.Left, budget)
		if part <= 0 {
			break
		}
		budget -= part
		compute += r.compute(f, part)
		if f.Left == f.Prompt-f.Cached {
			fresh++
		}
		if f.Adapter > 0 {
			adapted = r.Rates.loraPrefill
		}
	}
	// The weights are read once for the prompts' tokens and the others' alike.
	read := r.Rates.Step - r.Rates.Host + r.Rates.matrix + r.Rates.moreExperts(r.Rates.chunk-budget)
	launches := r.Rates.Busy * r.Rates.Prefill
	if r.Rates.adds {
		launches *= fresh
		if r.Rates.PrefillsFirst {
			read = 0
		}
	}
	a.GPU = r.Rates.beside(r.Rates.beside(read, compute), launches) + r.Rates.Sequence*float64(n)
	if n > 0 {
		a.GPU += r.Context * r.Rates.context
	}
	a.Host = max(r.Rates.Host+r.Rates.hostSequence*float64(n)+r.adapterStep(), r.Rates.Prefill-a.GPU) + adapted +
		r.Rates.request*fresh
	a.decodes = n
	r.begin(now, a)
}

// beside is the GPU's time for two parts of a step.
func (r *Rates) beside(a, b float64) float64 {
	if r.adds {
		return a + b
	}
	return max(a, b)
}

// compute is the GPU's time for the next tokens of a prompt: for each by itself, and
// for the context that it is read with.
func (r *Replica) compute(f *Flight, tokens int) float64 {
	n := float64(tokens)
	return n*r.Rates.Token + n*(float64(f.Prompt-f.Left)+n/2)*r.Rates.attention
}

func (r *Replica) adapterStep() float64 {
	return r.Rates.loraStep + r.Rates.loraEach*float64(max(0, r.LoRA.inUse-1))
}

func (r *Replica) computed(now float64, a *Activity) {
	length := now - a.start
	if r.Rates.chunk == 0 {
		f := r.Entered[0]
		r.Entered = r.Entered[:copy(r.Entered, r.Entered[1:])]
		r.Pending -= f.Left
		f.Left = 0
		r.stall += length
		r.stalled = len(r.Running)
		r.turn = !r.Rates.PrefillsFirst
		r.token(f, now)
		return
	}
	if a.decodes > 0 {
		r.stepped(1, a, now)
	} else if r.Rates.PrefillsFirst {
		r.stall += length
		r.stalled = len(r.Running)
	}
	budget := r.Rates.chunk - a.decodes
	kept := r.Entered[:0]
	for _, f := range r.Entered {
		part := min(f.Left, budget)
		budget -= part
		r.Pending -= part
		if f.Left -= part; f.Left > 0 {
			kept = append(kept, f)
			continue
		}
		r.token(f, now)
	}
	clear(r.Entered[len(kept):])
	r.Entered = kept
}

// token gives a request the token that its prefill ends with.
func (r *Replica) token(f *Flight, now float64) {
	if f.done == 0 {
		f.First = now
		r.To.Started(r, f)
	}
	r.To.Tokens(1, now)
	if f.done++; f.done == f.Output {
		r.leave(f, blocksOf(f.Prompt-f.whole, r.Size), now)
		return
	}
	f.began = r.ticks
	f.mark = r.ticks + int64(f.Output-f.done)
	r.Phases[r.phaseOf(f)]++
	r.Context += float64(f.Prompt)
	r.Running = append(r.Running, f)
	r.Marks = append(r.Marks, f.mark)
}

// phaseOf is the tick, modulo a block, before which a request needs a block.
func (r *Replica) phaseOf(f *Flight) int {
	b := int64(r.Size)
	full := (int64(f.Prompt-f.whole) - f.began) % b // its last block is full at the ticks of -full
	return int(((-full)%b + b) % b)
}

// private returns the number of blocks that a running request holds for itself.
func (r *Replica) private(f *Flight) int {
	return blocksOf(f.Prompt-f.whole+int(r.ticks-f.began), r.Size)
}

// blocksFor returns the number of blocks that the running need for so many steps.
func (r *Replica) blocksFor(steps int64) int {
	b := int64(r.Size)
	n := int(steps/b) * len(r.Running)
	for i := range steps % b {
		n += r.Phases[(r.ticks+i)%b]
	}
	return n
}

// Decode begins a run of steps in which the batch stays as it is: until the next request ends or the KV cache is
// full. When not even one step finds room, the request that was admitted last gives way.
func (r *Replica) Decode(now float64) {
	steps := int64(math.MaxInt64)
	for _, m := range r.Marks {
		steps = min(steps, m-r.ticks)
	}
	if r.turn && r.Waiting.Len() > 0 && r.mayAdmit(r.Waiting.at(0)) {
		steps = 1 // a prefill was held back for this step
	}
	if r.Steps {
		steps = 1
	}
	r.makeRoom()
	if len(r.Running) == 0 {
		r.Plan(now)
		return
	}
	if room := r.KV.available(); r.blocksFor(steps) > room {
		low, high := int64(1), steps // low fits, high does not
		for high-low > 1 {
			if mid := low + (high-low)/2; r.blocksFor(mid) <= room {
				low = mid
			} else {
				high = mid
			}
		}
		steps = low
	}
	n := float64(len(r.Running))
	a := Activity{Kind: Decoding, units: float64(steps), runs: true, decodes: len(r.Running), Share: r.Rates.DecodeSM}
	a.Host = r.Rates.Host + r.Rates.hostSequence*n + r.adapterStep()
	a.GPU = r.Rates.Step - r.Rates.Host + r.Rates.batched(len(r.Running)) +
		r.Rates.context*(r.Context+n*float64(steps-1)/2)
	r.begin(now, a)
}

func (r *Replica) stepped(steps int64, a *Activity, now float64) {
	n := a.decodes
	r.stalled = min(r.stalled, n)
	r.KV.take(r.blocksFor(steps))
	length := now - a.start
	r.To.Gaps(length/float64(steps), int64(n)*steps-int64(r.stalled), r.stall, r.stalled)
	r.stall, r.stalled, r.turn = 0, 0, false
	r.ticks += steps
	r.Context += float64(steps) * float64(n)
	r.To.Tokens(int64(n)*steps, now)
	ended := false
	for _, m := range r.Marks {
		ended = ended || m <= r.ticks
	}
	if !ended {
		return
	}
	k := 0
	for i, f := range r.Running {
		if r.Marks[i] > r.ticks {
			r.Running[k], r.Marks[k] = f, r.Marks[i]
			k++
			continue
		}
		r.settle(f)
		r.leave(f, r.private(f), now)
	}
	clear(r.Running[k:])
	r.Running, r.Marks = r.Running[:k], r.Marks[:k]
}

// settle takes a request out of the sums over the running.
func (r *Replica) settle(f *Flight) {
	r.Phases[r.phaseOf(f)]--
	steps := int(r.ticks - f.began)
	r.Context -= float64(f.Prompt + steps)
	f.done += steps
}

func (r *Replica) leave(f *Flight, private int, now float64) {
	r.KV.Release(r.KV.keep(f.Answer, private, f.end), 0)
	r.LoRA.release(f.Adapter)
	r.To.Ended(r, f, now)
}

// makeRoom preempts requests until the others find room for a step.
func (r *Replica) makeRoom() {
	for r.blocksFor(1) > r.KV.available() {
		r.preempt()
	}
}

// preempt sends the request that was admitted last back to the head of the queue:
// its KV cache is dropped and computed again.
func (r *Replica) preempt() {
	var f *Flight
	private := 0
	if last := len(r.Entered) - 1; last >= 0 {
		f = r.Entered[last]
		r.Entered[last] = nil
		r.Entered = r.Entered[:last]
		private = blocksOf(f.Prompt-f.whole, r.Size)
		r.Pending -= f.Left
	} else {
		last := len(r.Running) - 1
		f = r.Running[last]
		r.Running[last] = nil
		r.Running, r.Marks = r.Running[:last], r.Marks[:last]
		private = r.private(f)
		r.settle(f)
	}
	r.KV.Release(f.end, private)
	r.LoRA.release(f.Adapter)
	r.Waiting.pushFront(f)
	r.Pending += f.Input + f.done
	r.Stats.Preemptions++
	r.To.Preempted(f)
}
