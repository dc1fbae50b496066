// SPDX-License-Identifier: Apache-2.0

//go:build nightly && linux

package readme

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/cotenant/cotenant/internal/must"
)

// TestRelease unpacks the release's archives for Linux and starts the programs in a chroot that holds nothing but them,
// and for the one with cgo its libraries and a stand-in for NVML, which it then loads.
func TestRelease(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("chroot needs root")
	}
	out, gpuRoot, staticRoot := t.TempDir(), t.TempDir(), t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "TARGETS=linux/"+runtime.GOARCH)
		b, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, b)
		}
		return string(b)
	}
	printed := run(".ci/release", "v0.0.0-test", out)
	glibc := regexp.MustCompile(`needs glibc \d+\.\d+ or newer`).FindString(printed)
	run("sh", "-c", "cd "+out+" && sha256sum -c SHA256SUMS")
	for name, dir := range map[string]string{"cotenant": staticRoot, "cotenant-gpu": gpuRoot} {
		run("tar", "-C", dir, "--strip-components=1", "-xzf", filepath.Join(out, name+"_v0.0.0-test_linux_"+runtime.GOARCH+".tar.gz"))
		if to, err := os.Readlink(filepath.Join(dir, "kubectl-cotenant")); to != name {
			t.Errorf("the plugin is a link to %q, %v", to, err)
		}
	}
	if glibc == "" || !strings.Contains(read(t, gpuRoot, "README.md"), glibc) {
		t.Errorf("%q: the oldest glibc is not named in the archive", printed)
	}
	for _, m := range regexp.MustCompile(`(/\S+) \(0x`).FindAllStringSubmatch(run("ldd", filepath.Join(gpuRoot, "cotenant-gpu")), -1) {
		to := filepath.Join(gpuRoot, m[1])
		must.Do(t, os.MkdirAll(filepath.Dir(to), 0o755))
		run("cp", "-L", m[1], to)
	}
	started := func(dir string, args ...string) (string, error) {
		cmd := exec.Command("/"+args[0], args[1:]...)
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: dir}
		b, err := cmd.CombinedOutput()
		return string(b), err
	}
	watch := []string{"monitor", "-real", "-duration", "3s"}
	for _, c := range []struct {
		dir, program string
		args         []string
		fails        bool
		want         string
	}{
		{staticRoot, "cotenant", []string{"version"}, false, "v0.0.0-test linux/" + runtime.GOARCH + " static"},
		{staticRoot, "kubectl-cotenant", []string{"help"}, false, "discover"},
		{staticRoot, "cotenant", []string{"monitor"}, false, "simulated"},
		{staticRoot, "cotenant", watch, true, "this build is static"},
		{gpuRoot, "cotenant-gpu", []string{"version"}, false, "with NVML and CUDA"},
		{gpuRoot, "cotenant-gpu", watch, true, "this build is with NVML and CUDA"}, // no library yet
	} {
		text, err := started(c.dir, append([]string{c.program}, c.args...)...)
		if (err != nil) != c.fails || !strings.Contains(text, c.want) {
			t.Errorf("%s %v: %v\n%s", c.program, c.args, err, text)
		}
	}
	header := strings.TrimSpace(run("go", "list", "-m", "-f", "{{.Dir}}/pkg/nvml", "github.com/NVIDIA/go-nvml"))
	libc, err := filepath.Glob(filepath.Join(gpuRoot, "lib*", "*", "libc.so.6"))
	if err != nil || len(libc) == 0 {
		t.Fatalf("no libc in %s, %v", gpuRoot, err)
	}
	// What the stand-in leaves out is not supported, in the driver's own word for it.
	var rest strings.Builder
	for _, m := range regexp.MustCompile(`DECLDIR (nvml\w+)\(`).FindAllStringSubmatch(read(t, header, "nvml.h"), -1) {
		rest.WriteString("__attribute__((weak)) int " + m[1] + "(void) { return 3; }\n")
	}
	stubs := filepath.Join(out, "rest.c")
	must.Do(t, os.WriteFile(stubs, []byte(rest.String()), 0o644))
	library := []string{"-shared", "-fPIC", "-O1", "-I", header, "-o", filepath.Join(filepath.Dir(libc[0]), "libnvidia-ml.so.1"), "examples/exporter/testdata/nvml.c", stubs}
	for _, cost := range []string{"BASIC", "ENERGY", "PROCESSES", "PROCESS_UTIL", "SAMPLES"} {
		library = append(library, "-DCOST_"+cost+"=0,0")
	}
	run("cc", library...)
	text, err := started(gpuRoot, append([]string{"cotenant-gpu"}, watch...)...)
	if err != nil || !strings.Contains(text, "H100") {
		t.Errorf("monitor -real beside the stand-in: %v\n%s", err, text)
	}
}
