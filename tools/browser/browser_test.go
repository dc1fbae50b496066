// SPDX-License-Identifier: Apache-2.0

//go:build browser

package browser

import (
	"bytes"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

//go:embed testdata/axe.min.js
var axe string

// look finds texts that overlap or are cut.
//
//go:embed testdata/look.js
var look string

// pages are the commands that make each page: {} is the file to write, {fleet} a fleet of 800 workloads and {cluster} the
// fleet of the built-in cluster. A command runs in the repository's root.
var pages = []struct{ name, command, file string }{ // file is the page below {} where that is a folder
	{"bench of three scenarios", "cotenant bench table -report {} loadgen/report/testdata/runs/example", ""},
	{"built-in fleet", "cotenant decide -report {} examples/quickstart/fleet.yaml", ""},
	{"provisional answers and traps", "cotenant decide -report {} examples/quickstart/testdata/four-teams.yaml", ""},
	{"800 workloads", "cotenant decide -report {} {fleet}", ""},
	{"built-in cluster", "cotenant decide -report {} {cluster}", ""},
	{"a change of what runs", "cotenant decide -report {} decision/migrate/testdata/known.yaml", ""},
	{"two tenants", "cotenant bench -plan loadgen/study/testdata/plan.yaml -study -progress=false -report {}", ""},
	{"five scenarios", "cotenant bench -simulate baseline,mig,mig-emulation,mps,time-slicing -concurrency 2,8,24 -requests 60 -random-input-len 128 -random-output-len 32 -slo-ttft 300ms -progress=false -report {}", ""},
	{"co-located", "cotenant measure -plan mixed -seconds 2 -out {}.runs -report {}", ""},
	{"calculator", "cotenant cost -report {}", ""},
}

// pictures are those of the README, by the names of their pages.
var pictures = map[string]string{"a change of what runs": "plan.png", "bench of three scenarios": "load.png"}

// updatePictures asks for new ones: they are made in every run, and left in the tree in this one alone.
var updatePictures = flag.Bool("update", false, "write the README's pictures")

// largeFleet has 800 workloads of four kinds in four pools.
func largeFleet() string {
	var b strings.Builder
	b.WriteString("version: v1\ntrust: all\npools:\n")
	for i, gpu := range []string{"H100 80GB HBM3", "A100-SXM4-80GB", "L40S", "L4"} {
		fmt.Fprintf(&b, "  - {name: pool-%d, gpu: %s, count: 200, price_per_gpu_hour: %d.20 USD}\n", i, gpu, 4-i)
	}
	b.WriteString("workloads:\n")
	for i := range 800 {
		kind := []string{
			"kind: online-inference, memory: 14GiB, slo: {ttft_p99: 800ms, tpot_p99: 60ms}, gpu_busy: 0.3",
			"kind: notebook, memory: 6GiB, gpu_busy: 0.05", "kind: offline-inference, memory: 20GiB, gpu_busy: 0.8",
			"kind: ci, memory: 8GiB, gpu_busy: 0.1"}[i%4]
		fmt.Fprintf(&b, "  - {name: team-%d/service-%d, %s}\n", i/20, i, kind)
	}
	return b.String()
}

// looked holds what look.js finds in a page.
type looked struct {
	Broken []string // texts that overlap or are cut, and elements wider than the window
	Answer float64  // the lowest pixel of the answer
}

// TestPages: at a telephone's and a screen's width, in light and dark, each page logs nothing, asks for nothing, shows
// its answer in the first 600 pixels and all of its texts apart and whole, and passes axe-core. PAGES names a folder to
// leave the pages and their pictures in.
func TestPages(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv("PAGES")
	if dir == "" {
		dir = t.TempDir()
	}
	build := exec.Command("go", "build", "-o", filepath.Join(t.TempDir(), "bin")+"/", "./examples/cotenant")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	bin := filepath.Dir(build.Args[3])
	browser := open(t)
	fleet, cluster := filepath.Join(dir, "fleet.yaml"), filepath.Join(dir, "cluster.yaml")
	if err := os.WriteFile(fleet, []byte(largeFleet()), 0o644); err != nil {
		t.Fatal(err)
	}
	do := func(command, file string) ([]byte, error) {
		args := strings.Fields(strings.NewReplacer("{}", file, "{fleet}", fleet, "{cluster}", cluster).Replace(command))
		cmd := exec.Command(filepath.Join(bin, args[0]), args[1:]...)
		cmd.Dir = root
		return cmd.CombinedOutput()
	}
	if out, err := do("cotenant discover -out {}", cluster); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, p := range pages {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(dir, fmt.Sprintf("page%d", i))
			if p.file == "" {
				file += ".html"
			}
			out, err := do(p.command, file)
			file = filepath.Join(file, p.file)
			info, statErr := os.Stat(file)
			if statErr != nil {
				t.Fatalf("%v: %v, %v\n%s", p.command, err, statErr, out)
			}
			if info.Size() > 1_500_000 {
				t.Errorf("%d bytes", info.Size())
			}
			view(t, browser, file)
			if name, ok := pictures[p.name]; ok {
				shoot(t, browser, file, filepath.Join(root, "examples/cotenant/pictures", name))
			}
		})
	}
}

// open starts a browser that ends with the test.
func open(t *testing.T) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU)
	all, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	browser, stopBrowser := chromedp.NewContext(all, chromedp.WithErrorf(func(string, ...any) {}))
	t.Cleanup(stopBrowser)
	if err := chromedp.Run(browser); err != nil {
		t.Fatalf("no browser: %v (install chromium)", err)
	}
	return browser
}

// view opens a page in a tab, and checks it at each width in each scheme: as it opens, and with all that is folded open.
func view(t *testing.T, browser context.Context, file string) {
	t.Helper()
	tab, done := chromedp.NewContext(browser)
	defer done()
	tab, stop := context.WithTimeout(tab, 3*time.Minute)
	defer stop()
	own := "file://" + filepath.ToSlash(file)
	var mu sync.Mutex
	hear := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		t.Errorf(format, args...)
	}
	chromedp.ListenTarget(tab, func(ev any) {
		switch ev := ev.(type) {
		case *runtime.EventConsoleAPICalled:
			hear("console: %s", ev.Type)
		case *runtime.EventExceptionThrown:
			hear("exception: %s", ev.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			hear("log: %s", ev.Entry.Text)
		case *network.EventRequestWillBeSent:
			if ev.Request.URL != own {
				hear("request: %.100s", ev.Request.URL)
			}
		}
	})
	if err := chromedp.Run(tab, network.Enable(), log.Enable(), chromedp.Navigate(own), chromedp.Evaluate(axe+";0", nil)); err != nil {
		t.Fatal(err)
	}
	for _, width := range []int64{390, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			var closed, open, shown looked
			var violations, unfolded []string
			media := emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}})
			wait := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
			name := fmt.Sprintf("%s-%d-%s", strings.TrimSuffix(file, ".html"), width, scheme)
			judge := func(into *[]string) chromedp.Action { return chromedp.Evaluate(judged, into, wait) }
			actions := []chromedp.Action{media, chromedp.EmulateViewport(width, 900), chromedp.Evaluate(look, &closed, wait),
				picture(name), judge(&violations), chromedp.Evaluate(unfold, nil), chromedp.Evaluate(look, &open, wait),
				picture(name + "-open"), chromedp.Evaluate(click, nil), chromedp.Evaluate(look, &shown, wait)}
			if width == 390 && scheme == "light" { // the folded parts are made of the same elements
				actions = append(actions, judge(&unfolded))
			}
			if err := chromedp.Run(tab, append(actions, chromedp.Evaluate(fold, nil))...); err != nil {
				t.Fatalf("%d px, %s: %v", width, scheme, err)
			}
			if closed.Answer == 0 || closed.Answer > 600 {
				hear("%d px, %s: the answer ends at pixel %v", width, scheme, closed.Answer)
			}
			for _, what := range slices.Concat(closed.Broken, open.Broken, shown.Broken, violations, unfolded) {
				hear("%d px, %s: %s", width, scheme, what)
			}
		}
	}
}

// shoot takes the picture of a page's first screen for the README, and holds the one that stands there to its size.
func shoot(t *testing.T, browser context.Context, file, to string) {
	t.Helper()
	tab, done := chromedp.NewContext(browser)
	defer done()
	var picture []byte
	if err := chromedp.Run(tab, chromedp.EmulateViewport(1000, 760), chromedp.Navigate("file://"+filepath.ToSlash(file)),
		chromedp.CaptureScreenshot(&picture)); err != nil {
		t.Fatal(err)
	}
	if *updatePictures {
		if err := os.WriteFile(to, picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stands, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{picture, stands} {
		if size, err := png.DecodeConfig(bytes.NewReader(data)); err != nil || size.Width != 1000 || len(data) > 200_000 {
			t.Errorf("%s: %d pixels wide, %d bytes, %v", to, size.Width, len(data), err)
		}
	}
}

// judged returns what axe-core objects to. unfold opens what is folded, click shows the details of a tenant, and fold closes
// all of it.
const (
	judged = `axe.run({resultTypes: ["violations"]}).then(r => r.violations.map(v => v.id + ": " +
		v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + " " + n.failureSummary).join("; ")))`
	unfold = `document.querySelectorAll("details").forEach(d => { d.open = true; })`
	click  = `(button => { if (!button) return; button.click();
		if (!document.querySelector(":popover-open p")) console.error("a click shows nothing"); })(document.querySelector("[popovertarget]"))`
	fold = `document.querySelectorAll("details").forEach(d => { d.open = false; }); document.querySelector(":popover-open")?.hidePopover()`
)

// picture takes one of the whole page where PAGES asks for them.
func picture(name string) chromedp.ActionFunc {
	return func(ctx context.Context) error {
		if os.Getenv("PAGES") == "" {
			return nil
		}
		data, err := page.CaptureScreenshot().WithCaptureBeyondViewport(true).WithFormat(page.CaptureScreenshotFormatPng).Do(ctx)
		if err != nil {
			return err
		}
		return os.WriteFile(name+".png", data, 0o644)
	}
}
