package mps_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cotenant/cotenant/mps"
	"github.com/cotenant/cotenant/mps/mpstest"
)

// TestNamesOfTenants lets a tenant choose what its program is called: all clients
// stay listed, with their own names, and nothing reaches a terminal as it is.
func TestNamesOfTenants(t *testing.T) {
	for _, hostile := range []string{"already exists", "a\nb", "\x1b[2J\x1b]0;x\x07", "Server not found", "x\nServer not found\nUnknown command", "Cannot find MPS control daemon process",
		"Server 5 not found", "bad\xff", "", " ", "\n\n", "x\n99999999999 1 2", strings.Repeat("long", 5000), "a\u202egnp.exe", "Insufficient privileges"} {
		d := mpstest.New(mpstest.Options{})
		var pids []int
		for _, name := range []string{"./before", hostile, "./after"} {
			v, err := d.Connect(mpstest.Process{Command: name})
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, v.PID)
		}
		c := newClient(t, d)
		ps, err := c.Processes(t.Context())
		if err != nil || len(ps) != 3 || ps[0].Command != "./before" || ps[2].Command != "./after" {
			t.Errorf("%.40q: %.200q, %v", hostile, ps, err)
			continue
		}
		if got := ps[1].Command; strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r == 0x202e }) {
			t.Errorf("%.40q is shown as %.200q", hostile, got)
		}
		for i, p := range ps {
			if p.PID != pids[i] {
				t.Errorf("%.40q: %d is the process ID, want %d", hostile, p.PID, pids[i])
			}
		}
		m, err := c.Verify(t.Context(), pids[2], mps.VerifyOptions{Environ: func(int) ([]string, error) { return nil, nil }})
		if err != nil || m.Command != "./after" {
			t.Errorf("%.40q: verify says %+v, %v", hostile, m, err)
		}
		if s, err := c.Snapshot(t.Context()); err != nil || !slices.Equal(s.Servers[0].Clients, pids) {
			t.Errorf("%.40q: snapshot %+v, %v", hostile, s, err)
		}
	}
}
