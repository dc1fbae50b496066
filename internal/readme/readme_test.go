// SPDX-License-Identifier: Apache-2.0

package readme

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/internal/must"
	"github.com/cotenant/cotenant/internal/nightly"
)

const root = "../.."

// programs is the folder with the examples' programs, which TestMain builds once:
// all of them nightly, otherwise the two that users meet first.
var programs string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "cotenant-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	programs = dir
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "./examples/cotenant", "./examples/quickstart")
	if nightly.Enabled {
		build = exec.Command("go", "build", "-o", dir+string(filepath.Separator), "./examples/...")
	}
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		panic(string(out))
	}
	return m.Run()
}

func read(t *testing.T, names ...string) string {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join(names...)))(t)
	return string(b)
}

// TestProgram runs the README's program and compares what it prints.
func TestProgram(t *testing.T) {
	m := regexp.MustCompile("(?s)```go\n(.*?)```.*?```text\n(.*?)```").FindStringSubmatch(read(t, root, "README.md"))
	if m == nil {
		t.Fatal("the README has no program with its output")
	}
	file := filepath.Join(t.TempDir(), "main.go")
	must.Do(t, os.WriteFile(file, []byte(m[1]), 0o644))
	cmd := exec.Command("go", "run", file)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if diff := cmp.Diff(m[2], string(out)); err != nil || diff != "" {
		t.Errorf("%v; the README's program prints something else (-README +program):\n%s", err, diff)
	}
}

// command is a command line of a program, with what its output has to hold.
type command struct {
	line  string
	quick bool
	has   []string
}

// commands are those of testdata/commands.txt, and the other "go run ./examples/..." lines that the README and those of
// the examples print. A command that needs a GPU or a user's files is none of them.
func commands(t *testing.T) (out []*command) {
	t.Helper()
	for line := range strings.Lines(read(t, "testdata", "commands.txt")) {
		switch key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); key {
		case "quick", "heavy":
			out = append(out, &command{line: value, quick: key == "quick"})
		case "has":
			of := out[len(out)-1]
			of.has = append(of.has, value)
		}
	}
	others := regexp.MustCompile(` -real| (range|profiles)\.json`)
	text := read(t, root, "README.md")
	pages := must.Get(filepath.Glob(filepath.Join(root, "examples", "*", "README.md")))(t)
	for _, page := range pages {
		text += read(t, page)
	}
	lines := regexp.MustCompile(`(?m)^go run \./examples/(\S+.*)$`).FindAllStringSubmatch(text, -1)
	if len(lines) == 0 {
		t.Fatal("the README prints no command")
	}
	for _, l := range lines {
		line, _, _ := strings.Cut(l[1], "#")
		line = strings.TrimSpace(line)
		known := func(c *command) bool { return c.line == line }
		if !others.MatchString(line) && !slices.ContainsFunc(out, known) {
			out = append(out, &command{line: line})
		}
	}
	return out
}

// TestCommands runs the commands: they print something, of a page's width where
// people read it, and the figures that they have to.
func TestCommands(t *testing.T) {
	for _, c := range commands(t) {
		if !c.quick && !nightly.Enabled {
			continue
		}
		t.Run(c.line, func(t *testing.T) {
			words := strings.Fields(c.line)
			for i := range words {
				if i > 0 && words[i-1] == "-out" {
					words[i] = filepath.Join(t.TempDir(), words[i])
				}
			}
			cmd := exec.Command(filepath.Join(programs, words[0]), words[1:]...)
			cmd.Dir = root
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil || strings.TrimSpace(string(out)) == "" {
				t.Fatalf("%v; it prints %d bytes\n%s", err, len(out), stderr.String())
			}
			if line, columns := widest(string(out)); columns > columnsOfAPage && !forMachines(words) {
				t.Errorf("a line has %d columns: %s", columns, line)
			}
			text := strings.Join(strings.Fields(string(out)), " ")
			for _, want := range c.has {
				if !strings.Contains(text, want) {
					t.Errorf("it lacks %q:\n%s", want, out)
				}
			}
		})
	}
}

// columnsOfAPage is the width of what people read.
const columnsOfAPage = 100

// widest is the longest line of a text, with tabs to every eighth column.
func widest(text string) (line string, columns int) {
	for l := range strings.Lines(text) {
		n := 0
		for _, r := range strings.TrimSuffix(l, "\n") {
			if n++; r == '\t' {
				n += (8 - n%8) % 8
			}
		}
		if n > columns {
			line, columns = l, n
		}
	}
	return line, columns
}

// forMachines reports whether a command prints what programs read.
func forMachines(args []string) bool {
	return args[len(args)-1] == "discover" || slices.ContainsFunc(args, func(a string) bool { return a == "-json" || a == "json" || a == "-csv" || a == "-schema" })
}

// nested are the commands below a program's commands, or below a program that is no dispatcher by itself.
var nested = map[string][]string{
	"cost":           {"tenants", "nodes", "sla", "compare"},
	"cotenant bench": {"table", "compare"},
	"cotenant mig":   {"check", "pack", "plan", "apply"},
	"mps":            {"run"},
}

// TestHelp asks every program, and every command of those that have some, for help: it goes to standard output, of a
// page's width, and nothing has failed. Written to a full disk it is an error, and the exit code is 5.
func TestHelp(t *testing.T) {
	entries := must.Get(os.ReadDir(programs))(t)
	var asked [][]string
	ask := func(words ...string) {
		asked = append(asked, words)
		for _, c := range nested[strings.Join(words, " ")] {
			asked = append(asked, append(words[:len(words):len(words)], c))
		}
	}
	for _, e := range entries {
		ask(strings.TrimSuffix(e.Name(), ".exe"))
	}
	help := must.Get(exec.Command(filepath.Join(programs, "cotenant"), "help").Output())(t)
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+)  `).FindAllStringSubmatch(string(help), -1) {
		ask("cotenant", m[1])
	}
	if len(asked) < 4 {
		t.Fatalf("%d to ask", len(asked))
	}
	var full *os.File
	if runtime.GOOS == "linux" {
		full = must.Get(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t)
		defer full.Close()
	}
	for _, words := range asked {
		args := append(words[1:len(words):len(words)], "-h")
		cmd := exec.Command(filepath.Join(programs, words[0]), args...)
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil || stderr.Len() > 0 || stdout.Len() == 0 {
			t.Errorf("%v -h: %v; on standard output %d bytes, on standard error %q", words, err, stdout.Len(), stderr.String())
		}
		if line, columns := widest(stdout.String()); columns > columnsOfAPage {
			t.Errorf("%v -h has a line of %d columns: %s", words, columns, line)
		}
		if full != nil {
			onFullDisk(t, full, words[0], args...)
		}
	}
	if full == nil {
		return
	}
	for _, line := range []string{"quickstart", "cotenant", "cotenant version", "cotenant decide -json examples/quickstart/fleet.yaml"} {
		words := strings.Fields(line)
		onFullDisk(t, full, words[0], words[1:]...)
	}
	for _, c := range commands(t) {
		if words := strings.Fields(c.line); c.quick && nightly.Enabled && !slices.Contains(words, "-out") {
			onFullDisk(t, full, words[0], words[1:]...)
		}
	}
}

// onFullDisk: what can't be written is an error, and the exit code is 5.
func onFullDisk(t *testing.T, full *os.File, program string, args ...string) {
	t.Helper()
	var stderr strings.Builder
	cmd := exec.Command(filepath.Join(programs, program), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, full, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 5 || strings.Count(stderr.String(), "no space left on device") != 1 {
		t.Errorf("%s %v on a full disk: %v, %s", program, args, err, stderr.String())
	}
}

// TestPackages: the package table names every package folder that is there.
func TestPackages(t *testing.T) {
	text := read(t, root, "README.md")
	for _, p := range []string{"sharing", "mig", "mps", "timeslice", "loadgen", "telemetry", "decision", "cost"} {
		_, err := os.Stat(filepath.Join(root, p))
		if named := strings.Contains(text, "| `"+p+"` |"); named != (err == nil) {
			t.Errorf("%s: in the table %v, in the tree %v", p, named, err == nil)
		}
	}
}
