// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cotenant/cotenant/mig"
	"github.com/cotenant/cotenant/sharing"
)

func text(tb testing.TB, c *Cluster) string {
	tb.Helper()
	data, err := json.Marshal(c)
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

// TestObserveRefusesNothing holds that 10,000 drawn nodes, most of which contradict themselves, all stand in the layout
// with everybody who is on them, that nobody is given more than there is, and that what was observed is read back.
func TestObserveRefusesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var nodes []Node
	for i := range 10_000 {
		nodes = append(nodes, anything(rng, fmt.Sprint("n", i)))
	}
	c, problems := Observe(nodes)
	if c.Count() != len(nodes) || len(problems) < len(nodes) {
		t.Fatalf("%d nodes of %d, %d problems", c.Count(), len(nodes), len(problems))
	}
	for i := range nodes {
		n := c.Node(nodes[i].Name)
		if len(n.Assignments) != len(nodes[i].Assignments) || len(n.Devices) != len(nodes[i].Devices) {
			t.Fatalf("%s: %d assignments of %d", n.Name, len(n.Assignments), len(nodes[i].Assignments))
		}
		checkGiven(t, n)
	}
	before := text(t, c)
	again, keys := fill(t, rng, c, 5_000, "new")
	if len(keys) < 100 {
		t.Errorf("only %d were assigned", len(keys))
	}
	for _, key := range keys {
		again, _ = again.Release(key)
	}
	if text(t, c) != before || text(t, again) != before {
		t.Error("assigning and releasing changes the layout")
	}
}

// TestAssignRelease assigns and releases at random on nodes that are as they should be.
func TestAssignRelease(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 30 {
		var nodes []Node
		for i := range 6 {
			nodes = append(nodes, possible(rng, fmt.Sprint("n", i)))
		}
		empty, problems := Observe(nodes)
		if err := Err(problems); err != nil {
			t.Fatal(err)
		}
		c, keys := fill(t, rng, empty, 400, "k")
		if err := Err(c.Check()); err != nil {
			t.Fatal(err)
		}
		rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		for i, key := range keys {
			n := c.Find(key)
			if n == nil || n.find(key) < 0 {
				t.Fatalf("%s is not found", key)
			}
			next, ok := c.Release(key)
			if _, twice := next.Release(key); !ok || twice || next.Find(key) != nil {
				t.Fatalf("%s: %v, %v", key, ok, twice)
			}
			// It fits where it was, and taking it back gives the same layout.
			if back, err := next.Assign(n.Name, n.Replica(key)...); err != nil || text(t, back) != text(t, c) {
				t.Fatalf("round %d, %s: %v", round, key, err)
			}
			if c = next; i%20 == 0 {
				checkGiven(t, c.Node(n.Name))
			}
		}
		if text(t, c) != text(t, empty) {
			t.Fatalf("round %d: releasing everybody leaves\n%s\nof\n%s", round, text(t, c), text(t, empty))
		}
	}
}

// TestNodes adds, changes and removes nodes, and finds them and their replicas by name.
func TestNodes(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	c := &Cluster{}
	there := map[string]Node{}
	for range 2000 {
		name := fmt.Sprint("n", rng.IntN(80))
		old := c
		if rng.IntN(3) == 0 {
			c = c.WithoutNode(name)
			delete(there, name)
		} else {
			n := anything(rng, name)
			c, _ = c.WithNode(n)
			there[name] = n
		}
		if _, ok := there[name]; (c.Node(name) != nil) != ok || c.Count() != len(there) {
			t.Fatalf("%s: %v, %d of %d nodes", name, c.Node(name), c.Count(), len(there))
		}
		_ = old
	}
	var all []Node
	for n := range c.Nodes() {
		all = append(all, there[n.Name])
		for key := range n.keys() {
			if c.Find(key) == nil {
				t.Fatalf("%s is not found", key)
			}
		}
	}
	fresh, _ := Observe(all)
	if text(t, c) != text(t, fresh) {
		t.Error("a layout that was changed node by node is not the one observed at once")
	}
	if c.Len() > 128 {
		t.Errorf("%d positions for %d nodes", c.Len(), c.Count())
	}
}

// TestDiff: the nodes that the changes between two drawn layouts name, taken from the second, make the first the second.
func TestDiff(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		var a, b []Node
		for i := range 1 + rng.IntN(8) {
			name := fmt.Sprint("n", i)
			n := possible(rng, name)
			if rng.IntN(5) > 0 {
				a = append(a, n)
			}
			switch rng.IntN(4) {
			case 0:
				b = append(b, possible(rng, name))
			case 1, 2:
				b = append(b, n)
			}
		}
		from, _ := Observe(a)
		to, _ := Observe(b)
		if from.Len() > 0 {
			from, _ = fill(t, rng, from, 60, "k")
		}
		if to.Len() > 0 {
			to, _ = fill(t, rng, to, 60, "k")
		}
		got, changes := from, Diff(from, to)
		for _, c := range changes {
			for _, name := range []string{c.From, c.Node} {
				if got = got.WithoutNode(name); to.Node(name) != nil {
					got, _ = got.WithNode(*to.Node(name))
				}
			}
			if c.Key == "" && sameNode(from.Node(c.Node), to.Node(c.Node)) {
				t.Errorf("%v: it is alike", c)
			}
		}
		if d := cmp.Diff(text(t, to), text(t, got)); d != "" {
			t.Fatalf("%v\n%s", changes, d)
		}
		if again := Diff(to, got); len(again) > 0 || len(Diff(from, from)) > 0 {
			t.Fatalf("alike, and %v differs", again)
		}
	}
}

// TestMatch holds that replicas which stand where they stood keep their keys, whatever a plan calls them.
func TestMatch(t *testing.T) {
	bert, chat := &Workload{Name: "bert"}, &Workload{Name: "chat"}
	node := func(name string, as ...Assignment) Node {
		d := Device{GPU: testGPUs[2], Mode: sharing.MechanismTimeSlicing, Slots: 4}
		return Node{Name: name, Devices: []Device{d, d}, Assignments: as}
	}
	on := func(key string, w *Workload, device int16) Assignment {
		return Assignment{Key: key, Workload: w, Device: device}
	}
	from, _ := Observe([]Node{node("a", on("ml/bert-x", bert, 0), on("ml/bert-y", bert, 1), on("ml/chat-z", chat, 1)), node("b")})
	to, _ := Observe([]Node{node("a", on("0", bert, 1), on("1", bert, 1)), node("b", on("ml/chat-z", chat, 0), on("2", bert, 0))})
	var got []string
	for _, c := range Diff(from, Match(from, to)) {
		got = append(got, fmt.Sprintf("%s: %q to %q", c.Key, c.From, c.Node))
	}
	want := []string{`2: "" to "b"`, `ml/bert-x: "a" to "a"`, `ml/chat-z: "a" to "b"`}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestBadInput names everything at once.
func TestBadInput(t *testing.T) {
	m, err := mig.Lookup("H100 80GB HBM3")
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Profile("4g.40gb")
	if err != nil {
		t.Fatal(err)
	}
	h100, t4 := testGPUs[0], testGPUs[2]
	_, problems := Observe([]Node{
		{Name: "a", Delivery: sharing.DeliveryDevicePlugin, Devices: []Device{
			{UUID: "x", GPU: h100, Mode: sharing.MechanismMPS, Slots: 4}, {UUID: "x", GPU: h100, Mode: sharing.MechanismTimeSlicing, Slots: 4},
			{GPU: h100, Mode: sharing.MechanismMIG, Instances: []Instance{{Profile: p}, {Profile: p, Start: 2}}}, {}},
			Assignments: []Assignment{{Key: "1", Device: 7}, {Key: "2", Device: 0, Mode: sharing.MechanismTimeSlicing}, {Key: "3", Device: 1, Compute: 900},
				{Key: "4", Device: 1, Compute: 900}, {Key: "4", Device: 1}}},
		{Name: "b", Delivery: sharing.DeliveryKAI, Devices: []Device{{GPU: t4, Mode: sharing.MechanismMIG}, {GPU: t4, Mode: sharing.MechanismHAMiWithMPS, Health: "lost"}}},
		{Name: "a"},
		{Name: "c", Assignments: []Assignment{{Key: "1", Device: NoDevice, CPUMilli: 500}, {Device: UnknownDevice}}},
	})
	err = Err(problems)
	if !errors.Is(err, errInvalid) {
		t.Fatal(err)
	}
	for _, want := range []string{
		"nodes[0].devices[0].mode (a): its tenants run under two mechanisms",
		"nodes[0].devices[0].limit (a): a limit of 0B at 4 slots",
		"nodes[0].devices[0].mode (a): MPS next to devices in MIG mode",
		"nodes[0].devices[1].mode (a): time-slicing with 4 slots next to devices[0], mps with 4",
		`nodes[0].devices[1].uuid (a): "x" is that of devices[0] as well`,
		"nodes[0].devices[1] (a): 800 thousandths more of it are given away than there are",
		"nodes[0].devices[2].instances (a): its MIG instances do not fit together",
		"nodes[0].devices[3].gpu (a): what it is, is not known",
		"nodes[0].assignments[0].device (a): 1 is assigned to device 7, and the node has 4",
		"nodes[0].assignments[1].mode (a): 2 runs under time-slicing on device 0, which runs mps",
		"nodes[0].assignments[4].key (a): 4 is assigned to device 1 twice",
		"nodes[1].devices[0].mode (b): Tesla T4 has no MIG",
		"nodes[1].devices[1].health (b): it is lost",
		`nodes[2].name (a): "a" is the name of nodes[0] as well`,
		"nodes[3].assignments (c): 1 is assigned to node a as well",
		"nodes[3].assignments (c): take 500m of CPU",
		"nodes[3].assignments[1].key (c): is empty",
		"nodes[3].assignments[1] (c):  finds no room: the node is overcommitted",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}

// TestAssignErrors tells a node that went from one that has no room.
func TestAssignErrors(t *testing.T) {
	d := Device{GPU: &GPU{Name: "X", Memory: 45 * sharing.GiB}, Mode: sharing.MechanismTimeSlicing, Slots: 50}
	c, _ := Observe([]Node{{Name: "a", CPUMilli: 1000, Devices: []Device{d}}, {Name: "b", Closed: "cordoned", Devices: []Device{d}}})
	for i := range 45 {
		var err error
		if c, err = c.Assign("a", Assignment{Key: fmt.Sprint(i), Memory: sharing.GiB}); err != nil {
			t.Fatalf("%d of 45 requests of a 45th of the memory: %v", i, err)
		}
	}
	for name, try := range map[string]struct {
		node string
		as   []Assignment
		err  error
		text string
	}{
		"gone":   {"c", []Assignment{{Key: "x"}}, ErrNodeGone, "c"},
		"closed": {"b", []Assignment{{Key: "x"}}, ErrConflict, "cordoned"},
		"full":   {"a", []Assignment{{Key: "x", Memory: 1}}, ErrConflict, "1B more of its memory"},
		"key":    {"a", []Assignment{{Key: "7"}}, ErrConflict, "7 is assigned to node a already"},
		"cpu":    {"a", []Assignment{{Key: "x", CPUMilli: 2000}}, ErrConflict, "1000m are free"},
		"mode":   {"a", []Assignment{{Key: "x", Mode: sharing.MechanismMPS}}, ErrConflict, "runs time-slicing"},
		"device": {"a", []Assignment{{Key: "x", Device: 3}}, ErrConflict, "no device 3"},
		"twice":  {"a", []Assignment{{Key: "x"}, {Key: "x"}}, ErrConflict, "has the replica already"},
		"keys":   {"a", []Assignment{{Key: "x"}, {Key: "y"}}, ErrConflict, "two keys"},
		"none":   {"a", nil, ErrConflict, "nothing"},
	} {
		if _, err := c.Assign(try.node, try.as...); !errors.Is(err, try.err) || !strings.Contains(err.Error(), try.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
