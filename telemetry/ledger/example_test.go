package ledger_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/cotenant/cotenant/cost"
	"github.com/cotenant/cotenant/sharing"
	"github.com/cotenant/cotenant/telemetry/container"
	"github.com/cotenant/cotenant/telemetry/ledger"
)

// Ten seconds of a time-sliced GPU, of which two pods used nine.
func Example() {
	chat := container.Pod{Namespace: "search", Name: "chat-0", Container: "server"}
	tag := container.Pod{Namespace: "ads", Name: "tagger", Container: "server"}
	parts, err := ledger.Divide(ledger.Window{
		Length:    10 * time.Second,
		Mechanism: sharing.MechanismTimeSlicing,
		Busy:      ledger.Some(0.9),
		Claims: []ledger.Claim{
			{Pod: chat, Resident: true, Busy: ledger.Some(0.6)},
			{Pod: tag, Resident: true, Busy: ledger.Some(0.3)},
		},
	})
	if err != nil {
		panic(err)
	}
	l := ledger.New(ledger.Options{})
	price, _ := cost.ParsePrice("3.60 USD")
	_ = l.Post(ledger.Interval{GPU: "GPU-0"}) // its time begins
	err = l.Post(ledger.Interval{GPU: "GPU-0", To: 10 * time.Second, Mechanism: sharing.MechanismTimeSlicing, Parts: parts, Price: price})
	for _, r := range l.Rows() {
		fmt.Printf("%-14v %-6s %4v %6d millionths of a dollar\n", r.Account, r.Name, r.Time, r.Micros)
	}
	fmt.Println(l.GPUs()["GPU-0"], "observed", err)
	// Output:
	// tenant         tagger   3s   3000 millionths of a dollar
	// tenant         chat-0   6s   6000 millionths of a dollar
	// execution-idle tagger 500ms    500 millionths of a dollar
	// execution-idle chat-0 500ms    500 millionths of a dollar
	// 10s observed <nil>
}

// Under MPS the driver sees one server: tokens served narrow what can be told.
func ExampleDivide() {
	a, b := container.Pod{Name: "a"}, container.Pod{Name: "b"}
	parts, _ := ledger.Divide(ledger.Window{
		Length: time.Minute, Mechanism: sharing.MechanismMPS, Busy: ledger.Some(1.0),
		Claims: []ledger.Claim{
			{Pod: a, Resident: true, Tokens: ledger.Some(9000.0)},
			{Pod: b, Resident: true, Tokens: ledger.Some(3000.0)},
		},
	})
	for _, p := range parts {
		fmt.Println(p.Pod.Name, p.Time, "between", p.Low.Round(time.Second), "and", p.High.Round(time.Second), p.Basis)
	}
	// Output:
	// a 45s between 16s and 58s derived
	// b 15s between 2s and 44s derived
}

// A ledger that was killed after half a minute goes on two minutes later: what
// nobody saw is unattributed.
func ExampleRestore() {
	l := ledger.New(ledger.Options{Clock: "this boot"})
	_ = l.Post(ledger.Interval{GPU: "GPU-0", To: time.Hour})
	_ = l.Post(ledger.Interval{GPU: "GPU-0", To: time.Hour + 30*time.Second, Parts: []ledger.Part{
		{Account: ledger.AccountIdle, Time: 30 * time.Second, Low: 30 * time.Second, High: 30 * time.Second}}})
	records, _ := l.Changed() // to be stored

	l, _, err := ledger.Restore(ledger.Options{Clock: "this boot"}, slices.Values(records))
	_ = l.Post(ledger.Interval{GPU: "GPU-0", To: time.Hour + 150*time.Second})
	for _, t := range l.Totals() {
		fmt.Println(t.Account, t.Time)
	}
	fmt.Println(err)
	// Output:
	// unattributed 2m0s
	// idle 30s
	// <nil>
}
