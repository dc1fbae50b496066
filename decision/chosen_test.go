package decision

import "testing"

// TestChosen finds the chosen candidate wherever something was decided.
func TestChosen(t *testing.T) {
	fleet, err := ParseFleet([]byte(`
version: v1
pools:
  - {name: a, gpu: A100-SXM4-80GB, count: 2}
workloads:
  - {name: small, kind: offline-inference, memory: 6GiB, gpu_busy: 0.1}
  - {name: large, kind: training, memory: 900GiB}
`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Decide(fleet, Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := r.Decision("small")
	if c, ok := d.Chosen(); !ok || !c.Chosen || c.Mechanism != d.Mechanism || c.Profile != d.Profile || c.Pool != d.Pool {
		t.Errorf("%+v, %v, want %v on %s", c, ok, d.Mechanism, d.Pool)
	}
	if c, ok := r.Decision("large").Chosen(); ok {
		t.Errorf("nothing fits, and %+v is chosen", c)
	}
}
