//go:build browser

package browser

import (
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// listen notes where texts are painted, and look finds those that overlap or are cut.
var (
	//go:embed testdata/listen.js
	listen string
	//go:embed testdata/look.js
	look string
)

// pages are the commands that make each page; {} is the file to write, and a command runs in the repository's root.
var pages = []struct {
	name string
	args []string
	file string // that the command writes below {} where it is a folder
}{
	{"bench of three scenarios", []string{"./examples/cotenant", "bench", "report", "-out", "{}", "loadgen/report/testdata/runs/example"}, "report.html"},
}

// looked is what look.js and axe find in a page.
type looked struct {
	Broken []string // texts that overlap or are cut, and elements wider than the window
	Answer float64  // the lowest pixel of the answer
	Height float64
	Charts int
	Axe    []string
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
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU)
	all, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	browser, stopBrowser := chromedp.NewContext(all)
	defer stopBrowser()
	if err := chromedp.Run(browser); err != nil {
		t.Fatalf("no browser: %v (install chromium)", err)
	}
	for i, p := range pages {
		t.Run(p.name, func(t *testing.T) {
			file := filepath.Join(dir, fmt.Sprintf("page%d", i))
			if p.file == "" {
				file += ".html"
			}
			var args []string
			for _, a := range p.args[1:] {
				args = append(args, strings.ReplaceAll(a, "{}", file))
			}
			make := exec.Command(filepath.Join(bin, filepath.Base(p.args[0])), args...)
			make.Dir = root
			out, err := make.CombinedOutput()
			file = filepath.Join(file, p.file)
			info, statErr := os.Stat(file)
			if statErr != nil {
				t.Fatalf("%v: %v, %v\n%s", p.args, err, statErr, out)
			}
			if info.Size() > 1_500_000 {
				t.Errorf("%d bytes", info.Size())
			}
			for _, width := range []int64{390, 1280} {
				for _, scheme := range []string{"light", "dark"} {
					view(t, browser, file, width, scheme)
				}
			}
		})
	}
}

// view opens a page in a tab and checks it.
func view(t *testing.T, browser context.Context, file string, width int64, scheme string) {
	t.Helper()
	tab, done := chromedp.NewContext(browser)
	defer done()
	tab, stop := context.WithTimeout(tab, 30*time.Second)
	defer stop()
	var mu sync.Mutex
	var said []string
	hear := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, fmt.Sprintf(format, args...))
	}
	own := "file://" + filepath.ToSlash(file)
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
	var found looked
	var shot string
	media := emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}})
	wait := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
	picture := chromedp.ActionFunc(func(ctx context.Context) error {
		if os.Getenv("PAGES") == "" {
			return nil
		}
		data, err := page.CaptureScreenshot().WithCaptureBeyondViewport(true).Do(ctx)
		shot = base64.StdEncoding.EncodeToString(data)
		return err
	})
	before := chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(listen).Do(ctx)
		return err
	})
	if err := chromedp.Run(tab, before, network.Enable(), log.Enable(), media, chromedp.EmulateViewport(width, 900), chromedp.Navigate(own),
		chromedp.Evaluate(look, &found, wait), chromedp.ActionFunc(func(ctx context.Context) error {
			// As tall as the page, so that all of it is in the picture.
			return chromedp.EmulateViewport(width, int64(min(found.Height, 8000))).Do(ctx)
		}), picture, chromedp.Evaluate(axe+";0", nil), chromedp.Evaluate(`axe.run().then(r =>
			r.violations.map(v => v.id + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + " " + n.failureSummary).join("; ")))`,
			&found.Axe, wait)); err != nil {
		t.Errorf("%d px, %s: %v", width, scheme, err)
		return
	}
	if data, err := base64.StdEncoding.DecodeString(shot); err == nil && len(data) > 0 {
		name := fmt.Sprintf("%s-%d-%s.png", strings.TrimSuffix(file, ".html"), width, scheme)
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Error(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if found.Answer == 0 || found.Answer > 600 {
		said = append(said, fmt.Sprintf("the answer ends at pixel %v", found.Answer))
	}
	for _, what := range append(append(said, found.Broken...), found.Axe...) {
		t.Errorf("%d px, %s: %s", width, scheme, what)
	}
	if os.Getenv("PAGES") != "" {
		text, _ := json.Marshal(found)
		t.Logf("%d px, %s: %s", width, scheme, text)
	}
}
