package advise

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/cotenant/cotenant/decision"
	"github.com/cotenant/cotenant/decision/migrate"
	"github.com/cotenant/cotenant/internal/atomicfile"
)

// Options tune Look. The zero value is the documented default.
type Options struct {
	Decision decision.Options
	Patience time.Duration // for which a proposal must have been the best; 0 = it stands at once
	Unknown  []string      // what is not known of the cluster, as discover lists it
}

// Advice holds what one look found. It is the content of its file.
type Advice struct {
	At   time.Time     `json:"at"`
	Plan *migrate.Plan `json:"plan"`
	// Now gives replicas that wait devices that stand free. It moves nobody, and stands without patience.
	Now    *migrate.Plan `json:"now,omitempty"`
	Since  *time.Time    `json:"since,omitempty"` // the look from which on the plan's change has been the best
	Stands bool          `json:"stands"`          // for as long as the patience, and nothing is to be done before it
	// Changed tells what differs from the last look, Drifted what a plan that stood then has not become, and Settled
	// what is known by now and was not.
	Changed []string                  `json:"changed"`
	Drifted []string                  `json:"drifted"`
	Settled []string                  `json:"settled"`
	Unknown []string                  `json:"unknown"`
	Nodes   map[string]string         `json:"nodes"`  // how each hands out its GPUs
	Places  map[string]map[string]int `json:"places"` // replicas by workload and node
}

// stamp names the files, so that their order is that of time.
const stamp = "2006-01-02T15-04-05Z"

// Look plans the fleet as it runs at a moment, compares it with the last look in dir, and adds a file to dir, which is
// made if it is missing. at must be after the last look; the error says so, or what can't be read or written.
func Look(ctx context.Context, dir string, at time.Time, f *decision.Fleet, opts Options) (*Advice, error) {
	last, err := Last(dir)
	if err != nil {
		return nil, err
	}
	at = at.UTC().Truncate(time.Second)
	if last != nil && !at.After(last.At) {
		return nil, fmt.Errorf("advise: %s has a look of %s already, and this one is of %s: look again later, or, where a "+
			"clock was wrong, remove the file", dir, last.At.Format(time.RFC3339), at.Format(time.RFC3339))
	}
	var steps []migrate.Step
	if last != nil {
		steps = last.Plan.Steps
	}
	plan, err := migrate.Keep(ctx, f, steps, opts.Decision)
	if err != nil {
		return nil, err
	}
	a := &Advice{At: at, Plan: plan, Unknown: append([]string{}, opts.Unknown...), Changed: []string{},
		Drifted: []string{}, Settled: []string{}, Nodes: map[string]string{}, Places: map[string]map[string]int{}}
	for _, w := range f.Workloads {
		a.Places[w.Name] = map[string]int{}
	}
	for n := range plan.Today.Nodes() {
		a.Nodes[n.Name] = strings.TrimSuffix(migrate.Shape(n)+", "+n.Closed, ", ")
		for w, k := range n.Replicas() {
			a.Places[w][n.Name] = k
		}
	}
	if len(migrate.Waits(f, plan.Today)) > 0 {
		now, err := migrate.Admit(ctx, f, opts.Decision)
		if err != nil {
			return nil, err
		}
		if now.Changes() && !now.Disturbs() {
			a.Now = now
		}
	}
	if plan.Changes() {
		a.Since = &a.At
	}
	if last != nil {
		a.compare(last)
	}
	a.Stands = a.Since != nil && a.Now == nil && a.At.Sub(*a.Since) >= opts.Patience
	data, err := json.MarshalIndent(a, "", "  ")
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = atomicfile.Write(filepath.Join(dir, at.Format(stamp)+".json"), append(data, '\n'), 0o644)
	}
	if err != nil {
		return nil, fmt.Errorf("advise: %w", err)
	}
	return a, nil
}

// Last reads the newest look in a folder, nil where there is none.
func Last(dir string) (*Advice, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("advise: %w", err)
	}
	for _, e := range slices.Backward(entries) {
		name, is := strings.CutSuffix(e.Name(), ".json")
		if _, err := time.Parse(stamp, name); !is || err != nil {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		a := &Advice{}
		if err == nil {
			err = json.Unmarshal(data, a)
		}
		if err == nil && (a.Plan == nil || a.Nodes == nil || a.Places == nil) {
			err = errors.New("it is no look, or not all of one")
		}
		if err != nil {
			return nil, fmt.Errorf("advise: %s: %w: remove the file", filepath.Join(dir, e.Name()), err)
		}
		return a, nil
	}
	return nil, nil
}

// compare notes what became of the last look.
func (a *Advice) compare(last *Advice) {
	differs := func(what string, had, has map[string]string) {
		all := maps.Clone(had)
		maps.Copy(all, has)
		for _, k := range slices.Sorted(maps.Keys(all)) {
			before, was := had[k]
			now, is := has[k]
			switch {
			case !was:
				a.Changed = append(a.Changed, fmt.Sprintf("%s %s is new: %s", what, k, now))
			case !is:
				a.Changed = append(a.Changed, fmt.Sprintf("%s %s is gone: %s", what, k, before))
			case before != now:
				a.Changed = append(a.Changed, fmt.Sprintf("%s %s: %s, before %s", what, k, now, before))
			}
		}
	}
	differs("node", last.Nodes, a.Nodes)
	differs("workload", texts(last.Places), texts(a.Places))
	if a.Plan.Kept {
		a.Since = last.Since
	}
	for _, u := range last.Unknown {
		if !slices.Contains(a.Unknown, u) {
			a.Settled = append(a.Settled, u)
		}
	}
	if !last.Stands || a.Plan.Kept {
		return
	}
	for _, r := range last.Plan.Rows {
		if r.After == "" && a.Places[r.Workload][r.Node] > 0 {
			a.Drifted = append(a.Drifted, fmt.Sprintf("%s was to leave %s and runs there", r.Workload, r.Node))
		} else if r.After != "" && a.Places[r.Workload][r.Node] == 0 {
			a.Drifted = append(a.Drifted, fmt.Sprintf("%s was to run on %s (%s) and does not", r.Workload, r.Node, r.After))
		}
	}
}

// texts writes who runs where in a line each.
func texts(places map[string]map[string]int) map[string]string {
	out := map[string]string{}
	for w, on := range places {
		var parts []string
		for _, n := range slices.Sorted(maps.Keys(on)) {
			parts = append(parts, fmt.Sprintf("%d on %s", on[n], n))
		}
		if out[w] = strings.Join(parts, ", "); out[w] == "" {
			out[w] = "waits for a device"
		}
	}
	return out
}

// mostLines bounds each list of a text.
const mostLines = 20

// Headline says whether to act, on what, and since when that is best.
func (a *Advice) Headline() string {
	switch {
	case a.Now != nil:
		return "do this now, as replicas wait for it: " + a.Now.Why
	case !a.Plan.Changes():
		return "nothing to do: " + a.Plan.Why
	case a.Stands:
		return fmt.Sprintf("do this: %s; the best since %s", a.Plan.Why, a.Since.Format(time.RFC3339))
	}
	return fmt.Sprintf("wait: %s, but only since %s", a.Plan.Why, a.Since.Format(time.RFC3339))
}

// WriteText writes the advice for people; the plan itself is left to the caller.
func (a *Advice) WriteText(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s\n", a.At.Format(time.RFC3339), a.Headline())
	for _, list := range []struct {
		name  string
		items []string
	}{{"changed", a.Changed}, {"drifted from the plan", a.Drifted}, {"settled", a.Settled}} {
		for i, item := range list.items {
			if i == mostLines {
				fmt.Fprintf(&text, "  %s: %d more: the file has all\n", list.name, len(list.items)-i)
				break
			}
			fmt.Fprintf(&text, "  %s: %s\n", list.name, item)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

//go:embed cronjob.yaml
var cronYAML string

var cronTemplate = template.Must(template.New("").Parse(cronYAML))

// CronJob writes the objects with which a cluster looks at itself: a CronJob that runs `cotenant advise` of an image,
// which has kubectl on PATH, a ServiceAccount that may get and list what is read and change nothing, and a volume for
// the looks. every must divide an hour or a day; patience is that of Options.
func CronJob(namespace, image string, every, patience time.Duration) ([]byte, error) {
	if image == "" {
		return nil, errors.New("advise: a CronJob needs an image with cotenant as its entry point, and kubectl")
	}
	schedule := ""
	switch minutes, hours := int(every/time.Minute), int(every/time.Hour); {
	case every >= time.Minute && every <= time.Hour/2 && time.Hour%every == 0 && every%time.Minute == 0:
		schedule = fmt.Sprintf("*/%d * * * *", minutes)
	case every == 24*time.Hour:
		schedule = "0 0 * * *"
	case every >= time.Hour && every%time.Hour == 0 && 24%hours == 0:
		schedule = fmt.Sprintf("0 */%d * * *", hours)
	default:
		return nil, fmt.Errorf("advise: %v divides neither an hour nor a day into whole minutes or hours: use 15m, 1h or 24h",
			every)
	}
	var out bytes.Buffer
	err := cronTemplate.Execute(&out, map[string]string{"Namespace": namespace, "Image": image, "Schedule": schedule,
		"Patience": patience.String()})
	return out.Bytes(), err
}
