package predict

import "math"

// admit lets waiting requests in while there is room: one where prefills run alone, as many as a step computes
// where they run in chunks. It returns how long an adapter must be loaded for, first.
func (r *replica) admit(now float64) (load float64) {
	room := 1
	if r.c.chunk > 0 {
		room = r.c.chunk - len(r.running)
	}
	for _, f := range r.entered {
		room -= f.left
	}
	for skip := 0; room > 0 && skip < r.waiting.len() && r.rest.admits(); {
		f := r.waiting.at(skip)
		if len(r.running)+len(r.entered) >= r.c.sequences {
			r.block(f, blockedSequences)
			return 0
		}
		if f.adapter > 0 {
			switch ms := r.lora.need(f.adapter, &r.c); {
			case ms < 0: // every slot is in use: later ones may go first
				r.block(f, blockedAdapter)
				if skip++; skip >= mostSkipped {
					return 0
				}
				continue
			case ms > 0:
				r.stats.adapterLoads++
				return ms
			}
		}
		if !r.allocate(f) {
			r.block(f, blockedKV)
			return 0
		}
		r.waiting.remove(skip)
		r.lora.hold(f.adapter)
		f.left = f.prompt - f.cached
		r.pending -= f.cached
		r.entered = append(r.entered, f)
		room -= f.left
		if r.c.chunk == 0 {
			return 0
		}
	}
	return 0
}

// mostSkipped is how many requests are passed over for want of an adapter's slot.
const mostSkipped = 64

func (r *replica) block(f *flight, by blocker) {
	if f.blocked == blockedNot {
		f.blocked = by
		r.stats.blocked[by]++
	}
}

// allocate reserves the KV cache of a request's prompt, and of the tokens that it
// had been given when it was preempted.
func (r *replica) allocate(f *flight) bool {
	tokens := f.input + f.done
	units := f.prefix
	if r.unit == 0 {
		units = nil
	} else if n := f.input / r.unit; len(units) > n {
		units = units[:n]
	}
	whole := len(units) * r.unit
	end, hits, ok := r.kv.admit(units, blocksOf(tokens-whole, r.size), r.blocksFor(1))
	if !ok {
		return false
	}
	f.end, f.whole, f.prompt = end, whole, tokens
	f.cached = min(hits*r.unit, tokens-1) // the last token is always computed
	return true
}

// prefillNext computes prompts: the first whole one, or as much as a step holds beside those that decode.
func (r *replica) prefillNext(now float64) {
	a := activity{kind: prefilling, units: 1, share: r.c.prefillSM}
	if r.c.chunk == 0 {
		f := r.entered[0]
		a.gpu = max(r.compute(f, f.left), r.c.busy*r.c.prefill)
		a.host = max(0, r.c.prefill-a.gpu) + r.c.hostToken*float64(f.left)
		a.gpu *= r.c.slowPrefill
		if f.adapter > 0 {
			a.host += r.c.loraPrefill
		}
		r.begin(now, a)
		return
	}
	if r.makeRoom(); len(r.entered) == 0 {
		r.decode(now)
		return
	}
	n := len(r.running)
	if r.c.prefillsFirst {
		n = 0
	}
	budget, adapted := r.c.chunk-n, 0.0
	compute := 0.0
	for _, f := range r.entered {
		part := min(f.left, budget)
		if part <= 0 {
			break
		}
		budget -= part
		compute += r.compute(f, part)
		if f.adapter > 0 {
			adapted = r.c.loraPrefill
		}
	}
	// The weights are read once for the prompts' tokens and the others' alike.
	a.gpu = max(r.c.step-r.c.host+r.c.matrix+r.c.moreExperts(r.c.chunk-budget), compute, r.c.busy*r.c.prefill) +
		r.c.sequence*float64(n)
	if n > 0 {
		a.gpu += r.context * r.c.context
	}
	a.host = max(r.c.host+r.c.hostSequence*float64(n)+r.adapterStep(), r.c.prefill-a.gpu) + adapted
	a.decodes = n
	r.begin(now, a)
}

// compute is the GPU's time for the next tokens of a prompt: for each by itself, and
// for the context that it is read with.
func (r *replica) compute(f *flight, tokens int) float64 {
	n := float64(tokens)
	return n*r.c.token + n*(float64(f.prompt-f.left)+n/2)*r.c.attention
}

// adapterStep is what adapters add to a step, in ms.
func (r *replica) adapterStep() float64 {
	return r.c.loraStep + r.c.loraEach*float64(max(0, r.lora.inUse-1))
}

// computed ends a prefill or a mixed step.
func (r *replica) computed(now float64, a *activity) {
	length := now - a.start
	if r.c.chunk == 0 {
		f := r.entered[0]
		r.entered = r.entered[:copy(r.entered, r.entered[1:])]
		r.pending -= f.left
		f.left = 0
		r.stall += length
		r.stalled = len(r.running)
		r.turn = !r.c.prefillsFirst
		r.token(f, now)
		return
	}
	if a.decodes > 0 {
		r.stepped(1, a, now)
	} else if r.c.prefillsFirst {
		r.stall += length
		r.stalled = len(r.running)
	}
	budget := r.c.chunk - a.decodes
	kept := r.entered[:0]
	for _, f := range r.entered {
		part := min(f.left, budget)
		budget -= part
		r.pending -= part
		if f.left -= part; f.left > 0 {
			kept = append(kept, f)
			continue
		}
		r.token(f, now)
	}
	clear(r.entered[len(kept):])
	r.entered = kept
}

// token gives a request the token that its prefill ends with.
func (r *replica) token(f *flight, now float64) {
	if f.done == 0 {
		f.first = now
		r.to.started(r, f)
	}
	r.to.tokens(1, now)
	if f.done++; f.done == f.output {
		r.leave(f, blocksOf(f.prompt-f.whole, r.size), now)
		return
	}
	f.began = r.ticks
	f.mark = r.ticks + int64(f.output-f.done)
	r.phases[r.phaseOf(f)]++
	r.context += float64(f.prompt)
	r.running = append(r.running, f)
	r.marks = append(r.marks, f.mark)
}

// phaseOf is the tick, modulo a block, before which a request needs a block.
func (r *replica) phaseOf(f *flight) int {
	b := int64(r.size)
	full := (int64(f.prompt-f.whole) - f.began) % b // its last block is full at the ticks of -full
	return int(((-full)%b + b) % b)
}

// private is how many blocks a running request holds for itself.
func (r *replica) private(f *flight) int {
	return blocksOf(f.prompt-f.whole+int(r.ticks-f.began), r.size)
}

// blocksFor is how many blocks the running need for so many steps.
func (r *replica) blocksFor(steps int64) int {
	b := int64(r.size)
	n := int(steps/b) * len(r.running)
	for i := range steps % b {
		n += r.phases[(r.ticks+i)%b]
	}
	return n
}

// decode begins a run of steps in which the batch stays as it is: until the next request ends or the KV cache is
// full. When not even one step finds room, the request that was admitted last gives way.
func (r *replica) decode(now float64) {
	steps := int64(math.MaxInt64)
	for _, m := range r.marks {
		steps = min(steps, m-r.ticks)
	}
	if r.turn && r.waiting.len() > 0 && r.mayAdmit(r.waiting.at(0)) {
		steps = 1 // a prefill was held back for this step
	}
	if r.steps {
		steps = 1
	}
	r.makeRoom()
	if len(r.running) == 0 {
		r.plan(now)
		return
	}
	if room := r.kv.available(); r.blocksFor(steps) > room {
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
	n := float64(len(r.running))
	a := activity{kind: decoding, units: float64(steps), runs: true, decodes: len(r.running), share: r.c.decodeSM}
	a.host = r.c.host + r.c.hostSequence*n + r.adapterStep()
	a.gpu = r.c.step - r.c.host + r.c.batched(len(r.running)) + r.c.context*(r.context+n*float64(steps-1)/2)
	r.begin(now, a)
}

// stepped does so many decode steps.
func (r *replica) stepped(steps int64, a *activity, now float64) {
	n := a.decodes
	r.stalled = min(r.stalled, n)
	r.kv.take(r.blocksFor(steps))
	length := now - a.start
	r.to.gaps(length/float64(steps), int64(n)*steps-int64(r.stalled), r.stall, r.stalled)
	r.stall, r.stalled, r.turn = 0, 0, false
	r.ticks += steps
	r.context += float64(steps) * float64(n)
	r.to.tokens(int64(n)*steps, now)
	ended := false
	for _, m := range r.marks {
		ended = ended || m <= r.ticks
	}
	if !ended {
		return
	}
	k := 0
	for i, f := range r.running {
		if r.marks[i] > r.ticks {
			r.running[k], r.marks[k] = f, r.marks[i]
			k++
			continue
		}
		r.settle(f)
		r.leave(f, r.private(f), now)
	}
	clear(r.running[k:])
	r.running, r.marks = r.running[:k], r.marks[:k]
}

// settle takes a request out of the sums over the running.
func (r *replica) settle(f *flight) {
	r.phases[r.phaseOf(f)]--
	steps := int(r.ticks - f.began)
	r.context -= float64(f.prompt + steps)
	f.done += steps
}

// leave ends a request.
func (r *replica) leave(f *flight, private int, now float64) {
	r.kv.release(r.kv.keep(f.answer, private, f.end), 0)
	r.lora.release(f.adapter)
	r.to.ended(r, f, now)
}

// makeRoom preempts requests until the others find room for a step.
func (r *replica) makeRoom() {
	for r.blocksFor(1) > r.kv.available() {
		r.preempt()
	}
}

// preempt sends the request that was admitted last back to the head of the queue:
// its KV cache is dropped and computed again.
func (r *replica) preempt() {
	var f *flight
	private := 0
	if last := len(r.entered) - 1; last >= 0 {
		f = r.entered[last]
		r.entered[last] = nil
		r.entered = r.entered[:last]
		private = blocksOf(f.prompt-f.whole, r.size)
		r.pending -= f.left
	} else {
		last := len(r.running) - 1
		f = r.running[last]
		r.running[last] = nil
		r.running, r.marks = r.running[:last], r.marks[:last]
		private = r.private(f)
		r.settle(f)
	}
	r.kv.release(f.end, private)
	r.lora.release(f.adapter)
	r.waiting.pushFront(f)
	r.pending += f.input + f.done
	r.stats.preemptions++
	r.to.preempted(f)
}
