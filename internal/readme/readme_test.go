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
)

const root = "../.."

func readme(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func goRun(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"run"}, args...)...)
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go run %v: %v\n%s", args, err, stderr.String())
	}
	return string(out)
}

// TestProgram runs the README's program and compares what it prints.
func TestProgram(t *testing.T) {
	m := regexp.MustCompile("(?s)```go\n(.*?)```.*?```text\n(.*?)```").FindStringSubmatch(readme(t))
	if m == nil {
		t.Fatal("the README has no program with its output")
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(m[1]), 0o644); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m[2], goRun(t, file)); diff != "" {
		t.Errorf("the README's program prints something else (-README +program):\n%s", diff)
	}
}

// TestCommands runs every "go run ./examples/..." line that the README and those
// of the examples print.
func TestCommands(t *testing.T) {
	text := readme(t)
	pages, err := filepath.Glob(filepath.Join(root, "examples", "*", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text += string(b)
	}
	lines := regexp.MustCompile(`(?m)^go run (\./examples/\S+.*)$`).FindAllStringSubmatch(text, -1)
	if len(lines) == 0 {
		t.Fatal("the README prints no command")
	}
	seen := map[string]bool{}
	for _, l := range lines {
		line, _, _ := strings.Cut(l[1], "#")
		line = strings.TrimSpace(line)
		if seen[line] || strings.Contains(line, " -real") { // needs a GPU
			continue
		}
		seen[line] = true
		t.Run(line, func(t *testing.T) {
			args := strings.Fields(line)
			for i, a := range args {
				if i > 0 && args[i-1] == "-out" {
					args[i] = filepath.Join(t.TempDir(), a)
				}
			}
			out := goRun(t, args...)
			if strings.TrimSpace(out) == "" {
				t.Error("it prints nothing")
			}
			if line, columns := widest(out); columns > columnsOfAPage && !forMachines(args) {
				t.Errorf("a line has %d columns: %s", columns, line)
			}
		})
	}
}

// columnsOfAPage is how wide what people read may be.
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

// forMachines says whether a command prints what programs read.
func forMachines(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return a == "-json" || a == "json" || a == "-csv" || a == "-schema" })
}

// TestHelp asks every example for help: it is what was asked for, so that it goes
// to standard output, and nothing has failed.
func TestHelp(t *testing.T) {
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir+string(filepath.Separator), "./examples/...")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	programs, err := os.ReadDir(dir)
	if err != nil || len(programs) < 10 {
		t.Fatalf("%d programs, %v", len(programs), err)
	}
	asked := [][]string{{"mps", "run"}}
	for program, commands := range map[string][]string{
		"benchmark":    {"report", "table", "compare", "job", "merge", "import"},
		"cost":         {"tenants", "nodes", "sla", "compare", "attribute"},
		"cotenant mig": {"check", "pack", "plan", "apply", "generate", "enumerate"},
	} {
		for _, c := range commands {
			asked = append(asked, append(strings.Fields(program), c))
		}
	}
	for _, p := range programs {
		asked = append(asked, []string{strings.TrimSuffix(p.Name(), ".exe")})
	}
	for _, words := range asked {
		cmd := exec.Command(filepath.Join(dir, words[0]), append(words[1:], "-h")...)
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil || stderr.Len() > 0 || !strings.Contains(stdout.String(), "-") {
			t.Errorf("%v -h: %v; on standard output %d bytes, on standard error %q", words, err, stdout.Len(), stderr.String())
		}
		if line, columns := widest(stdout.String()); columns > columnsOfAPage {
			t.Errorf("%v -h has a line of %d columns: %s", words, columns, line)
		}
	}
	t.Run("full disk", func(t *testing.T) { fullDisk(t, dir) })
	// What they print without flags, where that takes no time; the commands of the
	// README have the others.
	for _, words := range [][]string{{"cost"}, {"fleet"}, {"judge", "-fleets", "3"}, {"monitor"}, {"mps"}, {"quickstart"}, {"timeslice"}} {
		out, err := exec.Command(filepath.Join(dir, words[0]), words[1:]...).Output()
		if line, columns := widest(string(out)); err != nil || columns > columnsOfAPage {
			t.Errorf("%v: %v; its longest line has %d columns: %s", words, err, columns, line)
		}
	}
}

// fullDisk: what can't be written is an error, and the exit code is 5 (of the two
// programs that write for themselves, 1).
func fullDisk(t *testing.T, dir string) {
	if runtime.GOOS != "linux" {
		t.Skip("/dev/full is Linux's")
	}
	commands := [][]string{{"cost"}, {"cost", "-format", "json"}, {"mps"}, {"mps", "plan"}, {"monitor", "-json"}, {"quickstart"}, {"quickstart", "-format", "json"},
		{"timeslice"}, {"measure", "-print-plan"},
		{"benchmark", "job", "-name", "a", "-image", "b", "-workers", "2", "--", "-rate", "2"}}
	programs, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		commands = append(commands, []string{p.Name(), "-h"})
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, words := range commands {
		var stderr strings.Builder
		cmd := exec.Command(filepath.Join(dir, words[0]), words[1:]...)
		cmd.Stdout, cmd.Stderr = full, &stderr
		err, want := cmd.Run(), 5
		if words[0] == "guard" || words[0] == "capacity" {
			want = 1
		}
		if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != want || strings.Count(stderr.String(), "no space left on device") != 1 {
			t.Errorf("%v on a full disk: %v, %s", words, err, stderr.String())
		}
	}
}

// TestPackages: the package table names every package folder that is there.
func TestPackages(t *testing.T) {
	text := readme(t)
	for _, p := range []string{"sharing", "mig", "mps", "timeslice", "loadgen", "telemetry", "decision", "cost"} {
		_, err := os.Stat(filepath.Join(root, p))
		if named := strings.Contains(text, "| `"+p+"` |"); named != (err == nil) {
			t.Errorf("%s: in the table %v, in the tree %v", p, named, err == nil)
		}
	}
}
