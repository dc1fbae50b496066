// SPDX-License-Identifier: Apache-2.0

package observe_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cotenant/cotenant/decision/observe"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/race"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/serving"
)

// truths are drawn anew for each number, evenly by their logarithms.
func truths(i int) truth {
	rng := rand.New(rand.NewPCG(uint64(i), 3))
	between := func(low, high float64) float64 { return low * math.Pow(high/low, rng.Float64()) }
	return truth{stepped: i%2 == 0, base: between(4e-3, 25e-3), each: between(0.05e-3, 0.4e-3), launch: between(3e-3, 15e-3),
		token: between(0.02e-3, 0.12e-3), slots: 256, chunk: 8192, noise: between(0.02, 0.08)}
}

// observed runs a server through phases and returns what a profile is made of.
func observed(t *testing.T, s *server, phases ...phase) []observe.Profile {
	t.Helper()
	pages := []string{s.page()}
	for _, p := range phases {
		s.run(p, 15, func() { pages = append(pages, s.page()) })
	}
	readings := must.Get(serving.Parse(strings.NewReader(strings.Join(pages, ""))))(t)
	profiles := must.Get(observe.Profiles(readings))(t)
	return profiles
}

// rate is about the requests a second that a server can serve with such requests.
func (t *truth) rate(busy, prompt, output float64) float64 {
	// A batch of n gives n tokens a step: n sequences at 60% of the time in steps.
	const n = 24
	step := t.base + t.each*n
	return busy / (output*step/n + t.launch + t.token*prompt)
}

func TestProfilesRecoverServers(t *testing.T) {
	t.Parallel()
	race.Long(t)
	servers, inside, asked := 40, 0, 0
	var worst [2]float64
	for i := range servers {
		s := newServer(truths(i), uint64(i))
		var phases []phase
		for k, busy := range []float64{0.1, 0.25, 0.4, 0.55} {
			prompt := []float64{200, 900, 400, 1500}[(k+i)%4]
			phases = append(phases, phase{600, s.rate(busy, prompt, 120), prompt, 120})
		}
		p := observed(t, s, phases...)[0]
		step := 1e3 * (s.base + s.each*p.Fit.Batch)
		prefill := 1e3 * (s.launch + s.token*p.Fit.Prompt)
		gotStep, gotPrefill := p.Fit.StepAt, p.Fit.PrefillAt
		for k, v := range []struct {
			got  profile.Interval
			want float64
		}{{gotStep, step}, {gotPrefill, prefill}} {
			asked++
			if v.got.Contains(v.want) {
				inside++
			}
			worst[k] = max(worst[k], math.Abs(v.got.Value/v.want-1))
		}
		t.Logf("%2d stepped %v batch %.1f step %.2f/%.2f base %.2f/%.2f each %.3f/%.3f prefill %.2f/%.2f token %.1f/%.1f [%.2f]", i, s.stepped, p.Fit.Batch, gotStep.Value, step,
			p.Fit.Step.Value, 1e3*s.base, p.Fit.StepSequence.Value, 1e3*s.each, gotPrefill.Value, prefill, p.Fit.PrefillToken.Value, 1e6*s.token, gotStep.WidthFraction())
	}
	t.Logf("worst %.3f, inside %d of %d", worst, inside, asked)
	if worst[0] > 0.05 || worst[1] > 0.05 {
		t.Errorf("step and prefill missed by up to %.3f", worst)
	}
	if c := float64(inside) / float64(asked); c < 0.85 || c > 0.97 {
		t.Errorf("intervals hold %.2f", c)
	}
}

// One load says what a step takes at its batch, and not how it grows: the interval of each part holds the truth.
func TestOneLoadOnly(t *testing.T) {
	for i := range 6 {
		s := newServer(truths(200+i), uint64(i))
		f := observed(t, s, phase{1200, s.rate(0.35, 500, 120), 500, 120})[0].Fit
		if !f.Step.Contains(1e3*s.base) || !f.StepSequence.Contains(1e3*s.each) || !f.Prefill.Contains(1e3*s.launch) {
			t.Errorf("step %v, %v a sequence, prefill %v: in truth %v", f.Step, f.StepSequence, f.Prefill, s.truth)
		}
		if v := 1e3 * (s.base + s.each*f.Batch); math.Abs(f.StepAt.Value/v-1) > 0.05 {
			t.Errorf("a step at the mean batch: %v, in truth %.2f", f.StepAt, v)
		}
		if text := strings.Join(f.Unknown, "; "); !strings.Contains(text, "too alike") || !strings.Contains(text, "nothing waited") {
			t.Errorf("what the data can't tell: %s", text)
		}
	}
}

// TestRealPages: what the pages of the testbed's servers on an H100 (driver 580.159.04) tell at three loads: of an 8B
// whose prompts are computed in the steps of the others, with vLLM's names, and of a 1B whose prompts are computed by
// themselves, with SGLang's. A step lies below the time per output token that clients measured at another load, which
// holds others' prompts, and above half of it; a prefill below the time to the first token.
func TestRealPages(t *testing.T) {
	for _, c := range []struct {
		file, engine string
		tpot, ttft   float64 // P50 in ms
	}{{"h100-vllm.prom.gz", "vllm", 12.09, 32.35}, {"h100-sglang.prom.gz", "sglang", 3.12, 10.63}} {
		profiles := must.Get(observe.Profiles(pages(c.file)))(t)
		f := profiles[0].Fit
		if profiles[0].Engine != c.engine || f.StepAt.Value > c.tpot || f.StepAt.Value < c.tpot/2 || f.PrefillAt.Value > c.ttft || f.PrefillAt.Low <= 0 {
			t.Errorf("%s: step %v, prefill %v", c.file, f.StepAt, f.PrefillAt)
		}
	}
}

// What makes no profile is refused, or left out and named.
func TestBadPages(t *testing.T) {
	s, other := newServer(truths(0), 1), newServer(truths(1), 2)
	var pages, foreign []string
	s.run(phase{300, 2, 200, 60}, 15, func() { pages = append(pages, s.page()) })
	other.run(phase{300, 2, 200, 60}, 15, func() { foreign = append(foreign, other.page()) })
	restarted := newServer(truths(0), 3)
	restarted.now = s.now
	again := slices.Clone(pages)
	restarted.run(phase{300, 2, 200, 60}, 15, func() { again = append(again, restarted.page()) })
	read := func(pages ...string) ([]observe.Profile, error) {
		readings := must.Get(serving.Parse(strings.NewReader(strings.Join(pages, ""))))(t)
		return observe.Profiles(readings)
	}
	if _, err := read(append(pages, foreign...)...); !errors.Is(err, observe.ErrMixed) || !strings.Contains(err.Error(), "sglang") {
		t.Errorf("two engines: %v", err)
	}
	if _, err := read(append(slices.Clone(pages), strings.ReplaceAll(pages[3], `"m"`, `"n"`))...); !errors.Is(err, observe.ErrMixed) {
		t.Errorf("two models: %v", err)
	}
	for name, few := range map[string][]string{"one page": pages[:1], "no time": {pages[0], pages[1]}, "the same": {pages[0], pages[0]}} {
		if name == "no time" { // without the third field of each line
			for i := range few {
				lines := strings.Split(few[i], "\n")
				for k, l := range lines {
					if f := strings.Fields(l); len(f) == 3 && f[0] != "#" {
						lines[k] = f[0] + " " + f[1]
					}
				}
				few[i] = strings.Join(lines, "\n")
			}
		}
		if _, err := read(few...); !errors.Is(err, observe.ErrTooLittle) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A page of another server of the model after each of the first's, as where one address stands for two.
	twin := newServer(truths(0), 8)
	twin.now = s.now - 300 + 22
	turns, n := []string{pages[0]}, 0
	twin.run(phase{300, 1, 200, 60}, 15, func() {
		if n++; n < len(pages) {
			turns = append(turns, twin.page(), pages[n])
		}
	})
	alone := must.Get(read(pages...))(t)
	if both, err := read(turns...); err != nil || both[0].Fit.StepAt != alone[0].Fit.StepAt || !strings.Contains(strings.Join(both[0].Left, "; "), "another server's") {
		t.Errorf("two servers behind one address: %+v of %q, alone %+v, %v", both[0].Fit.StepAt, both[0].Left, alone[0].Fit.StepAt, err)
	}
	whole, err := read(again...)
	if err != nil || len(whole) != 1 || len(whole[0].Left) != 1 || !strings.Contains(whole[0].Left[0], "restarted") {
		t.Errorf("a restart in between: %v, %v", whole, err)
	}
	if whole[0].Fit.Windows != len(again)-2 || whole[0].Engine != "vllm" {
		t.Errorf("%d windows of %d pages of %q", whole[0].Fit.Windows, len(again), whole[0].Engine)
	}
}

// llama.cpp's page says how long prompts and answers took, and not how many requests there were.
func TestLlamaCpp(t *testing.T) {
	page := func(at, prompt, seconds, tokens, decoding float64) string {
		return fmt.Sprintf("# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total %v %v\n# TYPE llamacpp:prompt_seconds_total counter\nllamacpp:prompt_seconds_total %v\n"+
			"# TYPE llamacpp:tokens_predicted_total counter\nllamacpp:tokens_predicted_total %v\n# TYPE llamacpp:tokens_predicted_seconds_total counter\nllamacpp:tokens_predicted_seconds_total %v\n"+
			"# TYPE llamacpp:requests_processing gauge\nllamacpp:requests_processing 3\n", prompt, int64(at*1e3), seconds, tokens, decoding)
	}
	readings, err := serving.Parse(strings.NewReader(page(1e9, 100, 0.1, 50, 1) + page(1e9+60, 6100, 3.1, 3050, 61)))
	if err != nil || len(readings) != 2 || readings[0].Engine != serving.EngineLlamaCpp || readings[1].PromptSeconds.Or(0) != 3.1 || readings[1].Running.Or(0) != 3 {
		t.Fatalf("%+v, %v", readings, err)
	}
	if d, err := readings[1].Since(readings[0]); err != nil || d.DecodeSeconds.Or(0) != 60 || d.GenerationTokens.Or(0) != 3000 {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := observe.Profiles(readings); !errors.Is(err, observe.ErrTooLittle) || !strings.Contains(err.Error(), "llama.cpp's pages count no requests") {
		t.Errorf("a profile without a number of requests: %v", err)
	}
}

// Prometheus' answer to a range query gives what the pages give.
func TestRange(t *testing.T) {
	s := newServer(truths(2), 9)
	var pages []string
	s.run(phase{300, 2, 200, 60}, 15, func() { pages = append(pages, s.page()) })
	series := map[string][]string{}
	for _, p := range pages {
		for line := range strings.Lines(p) {
			if f := strings.Fields(line); f[0] != "#" {
				ms, _ := strconv.ParseFloat(f[2], 64)
				series[f[0]] = append(series[f[0]], fmt.Sprintf("[%v,%q]", ms/1e3, f[1]))
			}
		}
	}
	label := regexp.MustCompile(`(\w+)="([^"]*)"`)
	var result []string
	for name, values := range series {
		base, rest, _ := strings.Cut(name, "{")
		labels := []string{fmt.Sprintf(`"__name__":%q`, base)}
		for _, m := range label.FindAllStringSubmatch(rest, -1) {
			labels = append(labels, fmt.Sprintf("%q:%q", m[1], m[2]))
		}
		result = append(result, fmt.Sprintf(`{"metric":{%s},"values":[%s]}`, strings.Join(labels, ","), strings.Join(values, ",")))
	}
	answer := `{"status":"success","data":{"resultType":"matrix","result":[` + strings.Join(result, ",") + `]}}`
	got := must.Get(serving.ParseRange(strings.NewReader(answer)))(t)
	want := must.Get(serving.Parse(strings.NewReader(strings.Join(pages, ""))))(t)
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(sharing.Optional[float64]{})); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "{", `{"status":"error","error":"x"}`, `{"status":"success","data":{"resultType":"matrix"}}`, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"vllm:x"},"values":[["a",1]]}]}}`} {
		if r, err := serving.ParseRange(strings.NewReader(bad)); err == nil || len(r) > 0 {
			t.Errorf("%q: %v, %v", bad, r, err)
		}
	}
}
