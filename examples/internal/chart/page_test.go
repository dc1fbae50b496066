package chart

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// elements reads a document strictly: whatever is not closed, not in its order or
// not escaped is an error.
func elements(t *testing.T, name string, data []byte) []xml.StartElement {
	t.Helper()
	dec := xml.NewDecoder(bytes.NewReader(data))
	dec.Entity = xml.HTMLEntity
	var all []xml.StartElement
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if e, ok := tok.(xml.StartElement); ok {
			all = append(all, e.Copy())
		}
	}
}

var (
	svgColour = regexp.MustCompile(`(?:fill|stroke):(#[^;"]*)`)
	colour    = regexp.MustCompile(`^#([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})$`)
)

// checkDrawing wants a drawing that is well-formed, has colours that exist and
// refers to nothing.
func checkDrawing(t *testing.T, name string, data []byte) {
	t.Helper()
	all := elements(t, name, data)
	if len(all) == 0 || all[0].Name.Local != "svg" {
		t.Fatalf("%s is no SVG", name)
	}
	for _, e := range all {
		for _, attr := range e.Attr {
			if attr.Name.Local == "href" || strings.Contains(attr.Value, "url(") {
				t.Errorf("%s: <%s> refers to %s", name, e.Name.Local, attr.Value)
			}
		}
	}
	for _, c := range svgColour.FindAllSubmatch(data, -1) {
		if !colour.Match(c[1]) {
			t.Errorf("%s: %s is no colour", name, c[1])
		}
	}
}

// checkPage wants a page that needs nothing but itself and shows every figure.
func checkPage(t *testing.T, page []byte, figures string) {
	t.Helper()
	for _, bad := range []string{"@import", "url(", "ZgotmplZ", "<no value>", "NaN"} {
		if bytes.Contains(page, []byte(bad)) {
			t.Errorf("the page has %q", bad)
		}
	}
	shown := map[string]bool{}
	for _, e := range elements(t, "report.html", page) {
		switch e.Name.Local {
		case "script", "link", "iframe", "object", "embed", "base":
			t.Errorf("the page has a <%s>", e.Name.Local)
		}
		for _, attr := range e.Attr {
			if attr.Name.Local != "src" && attr.Name.Local != "href" && attr.Name.Local != "srcset" {
				continue
			}
			text, ok := strings.CutPrefix(attr.Value, "data:image/svg+xml;base64,")
			if !ok {
				t.Errorf("the page refers to %.80s", attr.Value)
				continue
			}
			svg, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			checkDrawing(t, "a drawing in the page", svg)
			shown[string(svg)] = true
		}
	}
	files, err := filepath.Glob(filepath.Join(figures, "*.svg"))
	if err != nil || len(files) == 0 || len(files) != len(shown) {
		t.Errorf("%d figures in the page, %d beside it, %v", len(shown), len(files), err)
	}
	for _, file := range files {
		if svg, err := os.ReadFile(file); err != nil || !shown[string(svg)] {
			t.Errorf("%s is not in the page (%v)", filepath.Base(file), err)
		}
		if _, err := os.Stat(strings.TrimSuffix(file, ".svg") + ".png"); err != nil {
			t.Error(err)
		}
	}
}

// browser starts a headless one on a file and returns the page as it stands in the
// end and what the browser logged.
func browser(t *testing.T, program, file string, window string) (dom, log string, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND",
		"--user-data-dir="+t.TempDir(), "--window-size="+window, "--enable-logging=stderr", "--v=0", "--dump-dom", file)
	cmd.WaitDelay = 5 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// probe writes into the page what a reader would notice.
const probe = `<script>
addEventListener("load", () => {
  const broken = [...document.images].filter(i => !i.complete || i.naturalWidth < 100).map(i => i.alt);
  const outside = performance.getEntriesByType("resource").map(r => r.name).filter(n => !n.startsWith("data:"));
  const wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
  console.log("probe ran");
  document.title = "images " + document.images.length + ", broken [" + broken + "], outside [" + outside + "], wide " + wide;
});
</script></body>`

var consoleLine = regexp.MustCompile(`(?m)^.*CONSOLE.*$`)

// TestReportInABrowser needs a Chromium on the PATH.
func TestReportInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "headless_shell"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	if program == "" {
		t.Skip("no chromium, google-chrome or headless_shell on the PATH")
	}
	if dom, log, err := browser(t, program, "about:blank", "800,600"); err != nil || !strings.Contains(dom, "<html>") {
		t.Skipf("%s does not start here: %v\n%s", program, err, log)
	}
	dir := t.TempDir()
	if _, err := WriteReport(dir, exampleRuns(t)); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "probe.html")
	if err := os.WriteFile(file, bytes.Replace(page, []byte("</body>"), []byte(probe), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	figures, err := filepath.Glob(filepath.Join(dir, "figures", "*.svg"))
	if err != nil || len(figures) == 0 {
		t.Fatalf("%d figures, %v", len(figures), err)
	}
	for _, window := range []string{"1400,900", "500,900"} {
		dom, log, err := browser(t, program, "file://"+filepath.ToSlash(file), window)
		if err != nil {
			t.Fatalf("%v\n%s", err, log)
		}
		if want := fmt.Sprintf("<title>images %d, broken [], outside [], wide false</title>", len(figures)); !strings.Contains(dom, want) {
			t.Errorf("window %s: want %s in\n%.600s", window, want, dom)
		}
		if lines := consoleLine.FindAllString(log, -1); len(lines) != 1 || !strings.Contains(lines[0], "probe ran") {
			t.Errorf("window %s: the console says %q", window, lines)
		}
	}
}
