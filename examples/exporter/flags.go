// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/cost"
	pages "github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/telemetry/container"
)

type config struct {
	listen, state, prices, root, node string
	kubelet, webConfig, nvml          string
	dcgm                              string // address of dcgm-exporter's page
	objectives                        []objective
	real, simulate                    bool
	speed                             float64
	period                            time.Duration
	hold                              time.Duration // that new series are shown at 0
}

const usage = `Says who used the GPUs of this node, per pod, to the last GPU-second.

  go run . -simulate                       a made-up node of 8 GPUs whose pods come and go
  go run . -simulate -speed 60 -state DIR  an hour a minute; kept over restarts
  go run . -real -state DIR                this machine's GPUs

It serves /metrics, /healthz and /livez (does any GPU answer?).
Without -state the counters begin anew with each start.

METRICS.md lists the metrics; deploy has rules for Prometheus and a dashboard
for Grafana.

Exit codes: 0 done, also after Ctrl-C or SIGTERM; 5 the GPUs, the state or the
port cannot be used; 2 bad input.

Flags:
`

// parse reads the flags, naming every problem.
func parse(args []string, stdout io.Writer) (*config, error) {
	c := &config{}
	fs := pages.FlagSet("exporter")
	fs.StringVar(&c.listen, "listen", ":9400", "address to listen on")
	fs.BoolVar(&c.real, "real", false, "read this machine's GPUs through NVML")
	fs.BoolVar(&c.simulate, "simulate", false, "a simulated node")
	fs.Float64Var(&c.speed, "speed", 1, "with -simulate: how many times as fast as the clock")
	fs.StringVar(&c.state, "state", "", "folder for the accounts (default: kept in memory only)")
	fs.DurationVar(&c.period, "period", time.Second,
		"time between cheap readings; costly ones come ten times as seldom,\nbut every 14s, or every period where that "+
			"is longer")
	fs.StringVar(&c.prices, "prices", "", "YAML file of prices of GPU hours, by part of a GPU's name or UUID, and default")
	fs.StringVar(&c.root, "root", "/", "where the host's root folder is mounted")
	fs.StringVar(&c.node, "node", "", "the label node (default: NODE_NAME, or the host's name)")
	fs.StringVar(&c.kubelet, "kubelet", "", "socket of the kubelet's pod-resources API (default: not asked)")
	fs.StringVar(&c.dcgm, "dcgm", "", "URL of dcgm-exporter's page on this node, for the activity of MIG instances\n"+
		"before Hopper (default: not read)")
	fs.DurationVar(&c.hold, "scrape-interval", 30*time.Second, "longest time between two scrapes: a new series is shown "+
		"at 0 for\nso long, and the accounts stay as they are, so that rates miss nothing")
	fs.StringVar(&c.webConfig, "web-config", "", "file with TLS and basic auth, as Prometheus' exporters take it")
	fs.StringVar(&c.nvml, "nvml", "", "path of libnvidia-ml.so.1 (default: as the linker finds it)")
	fs.Func("objective", "NAMESPACE/OWNER/CONTAINER=ttft:DURATION or tpot:DURATION, which the server's P95 should meet,\n"+
		"for the alert ServerMissesObjective; repeat it", func(s string) error {
		o, err := parseObjective(s)
		c.objectives = append(c.objectives, o)
		return err
	})
	if err := pages.Parse(fs, args, usage, 0, stdout); err != nil {
		return nil, err
	}
	var probs []error
	bad := func(format string, args ...any) { probs = append(probs, fmt.Errorf(format, args...)) }
	if c.real == c.simulate {
		bad("give -real for this machine's GPUs or -simulate for a made-up node (one of them)")
	}
	if !(c.speed > 0) || c.speed > 1e5 {
		bad("-speed: %v (use more than 0 and at most 100000)", c.speed)
	}
	if c.speed != 1 && !c.simulate {
		bad("-speed is for -simulate")
	}
	if c.period < 100*time.Millisecond || c.period > time.Minute {
		bad("-period: %v (use 100ms to 1m)", c.period)
	}
	if c.hold < 0 || c.hold > 10*time.Minute {
		bad("-scrape-interval: %v (use 0 to 10m)", c.hold)
	}
	if u, err := url.Parse(c.dcgm); c.dcgm != "" && (err != nil || u.Host == "" || u.Scheme != "http" &&
		u.Scheme != "https") {
		bad("-dcgm: %q (use http://HOST:PORT/metrics)", c.dcgm)
	}
	if c.dcgm != "" && !c.real {
		bad("-dcgm is for -real")
	}
	if _, _, err := net.SplitHostPort(c.listen); err != nil {
		bad("-listen: %w (for example :9400)", err)
	}
	if c.node = cmp.Or(c.node, os.Getenv("NODE_NAME")); c.node == "" {
		c.node, _ = os.Hostname() // an empty name is a label like any other
	}
	return c, errors.Join(probs...)
}

// objective is a bound on the P95 of a latency (ttft or tpot) of the servers of an owner.
type objective struct {
	owner   container.Pod
	latency string
	bound   time.Duration
}

// parseObjective reads NAMESPACE/OWNER/CONTAINER=LATENCY:DURATION.
func parseObjective(s string) (o objective, err error) {
	name, value, _ := strings.Cut(s, "=")
	parts := strings.Split(name, "/")
	latency, text, _ := strings.Cut(value, ":")
	bound, err := time.ParseDuration(text)
	if len(parts) != 3 || err != nil || bound <= 0 || latency != "ttft" && latency != "tpot" {
		return o, fmt.Errorf("-objective: %q (use NAMESPACE/OWNER/CONTAINER=ttft:400ms or tpot:40ms)", s)
	}
	owner := container.Pod{Namespace: parts[0], Name: parts[1], Container: parts[2]}
	return objective{owner.Clean(), latency, bound}, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// prices are the prices of GPU hours, by a GPU's UUID, by a part of its name as the driver gives it, or for all others
// under defaultPrice.
type prices map[string]cost.Money

const defaultPrice = "default"

// readPrices reads a YAML file of names and prices; "" is none.
func readPrices(file string) (prices, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("-prices: %w", err)
	}
	var texts map[string]string
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&texts); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("-prices: %s: %s (use lines of NAME: PRICE)", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if decoder.Decode(new(yaml.Node)) == nil {
		return nil, fmt.Errorf("-prices: %s: more than one document (split them into one file each)", file)
	}
	p, currency := prices{}, ""
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		m, err := cost.ParseMoney(texts[name])
		currency = cmp.Or(currency, m.Currency())
		switch {
		case err != nil:
		case name == "":
			err = fmt.Errorf("an empty name (use %s for all other GPUs)", defaultPrice)
		case m.Sign() < 0 || m.Micros() > 1e12:
			err = fmt.Errorf("%v an hour (use 0 to a million)", m)
		case m.Currency() != currency:
			err = fmt.Errorf("%v among prices in %s (use one currency)", m, currency)
		}
		if p[name] = m; err != nil {
			errs = append(errs, fmt.Errorf("-prices: %s: %s: %w", file, name, err))
		}
	}
	return p, errors.Join(errs...)
}

// of returns the price of a GPU's hour: by its UUID, else by the longest name that fits; the zero Money where there is
// none.
func (p prices) of(uuid, name string) cost.Money {
	if m, ok := p[uuid]; ok {
		return m
	}
	best := ""
	for n := range p {
		if strings.Contains(name, n) && (len(n) > len(best) || len(n) == len(best) && n < best) {
			best = n
		}
	}
	return p[cmp.Or(best, defaultPrice)]
}
