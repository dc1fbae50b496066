// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/cotenant/cotenant/decision/discover"
	"github.com/cotenant/cotenant/examples/internal/page"
	"github.com/cotenant/cotenant/telemetry/telemetrynvml"
)

// The built-in cluster and its prices.
var (
	//go:embed discover/cluster.json
	discoverCluster []byte
	//go:embed discover/prices.yaml
	discoverPrices []byte
)

// discoverOptions holds the flags of discover, and those of plan that name inputs.
type discoverOptions struct {
	json, real, kube               bool
	out, prices, hints, prometheus string
	files                          []string
}

// inputFlags adds the flags that name inputs.
func (o *discoverOptions) inputFlags(fl *flag.FlagSet) {
	fl.BoolVar(&o.kube, "kube", false, "read the live cluster by kubectl get, also in a pod; kubectl must be on PATH")
	fl.StringVar(&o.prometheus, "prometheus", "", "`URL` of a Prometheus server: take the last 7 days of "+
		"dcgm-exporter's, vLLM's and SGLang's series; http://USER:PASSWORD@HOST:9090 where a login is needed")
	fl.BoolVar(&o.real, "real", false, "read GPUs, MIG instances and processes of this machine's driver (NVML)")
	fl.StringVar(&o.prices, "prices", "", "`FILE` of prices an hour: \"A100-SXM4-80GB: 3.25 USD\", "+
		"\"p4d.24xlarge: 32.77 USD\"")
	fl.StringVar(&o.hints, "hints", "", "`FILE` of facts that override guesses: {workloads: {team/chat: {kind: "+
		"online-inference, slo: {ttft_p99: 500ms}}, \"lab/*\": {kind: notebook}}, nodes: {gpu-7: {gpu: L40S}}}")
}

func runDiscover(ctx context.Context, fl *call, std stdio) error {
	var o discoverOptions
	o.inputFlags(fl.FlagSet)
	fl.BoolVar(&o.json, "json", false, "print JSON: fleet, provenance, findings, unknown and today")
	fl.Func("out", "`FILE` to write the fleet to, with the source of each field", page.Named(&o.out))
	if err := fl.parse(anyNumber, std); err != nil {
		return err
	}
	o.files = fl.Args()
	c, part, err := o.read(ctx, std)
	if err != nil {
		return err
	}
	d := c.Discover()
	if part != nil && d.Pods+len(d.Fleet.Pools)+len(d.Fleet.Workloads)+len(d.Findings) == 0 {
		return part
	}
	if err := o.write(d, std); err != nil {
		return err
	}
	return part
}

// prometheusWindow is the time range that -prometheus requests.
const prometheusWindow = 7 * 24 * time.Hour

// read collects all inputs. part names the unreadable ones.
func (o *discoverOptions) read(ctx context.Context, std stdio) (c *discover.Collector, part, err error) {
	live := o.kube || isPlugin() && len(o.files) == 0 && !o.real
	builtIn := len(o.files) == 0 && !o.real && !live && o.prometheus == ""
	opts, err := discover.LoadOptions(o.prices, o.hints)
	if err == nil && opts.Prices == nil && builtIn {
		opts.Prices, err = discover.ParsePrices(discoverPrices)
	}
	if err != nil {
		return nil, nil, badInput(err)
	}
	c = discover.New(opts)
	if o.real {
		r, err := telemetrynvml.Open(telemetrynvml.Options{})
		if err != nil {
			return nil, nil, refuseReal(err)
		}
		defer r.Close()
		inv, err := r.Inventory(ctx)
		host, hostErr := os.Hostname() // which is its node's where it is one
		if err = errors.Join(err, hostErr); err != nil {
			return nil, nil, refuseReal(err)
		}
		c.AddInventory(host, inv)
	}
	if live {
		part, err = readCluster(ctx, c.Read, std.err)
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w\nor use: kubectl get %s -A -o json | cotenant discover -", err, discover.Resources)
		}
		if errors.Is(err, exec.ErrNotFound) {
			err = badInput(err)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if builtIn {
		part = badInput(c.Read("the built-in cluster", bytes.NewReader(discoverCluster)))
	}
	if o.prometheus != "" {
		err := c.ReadPrometheus(ctx, o.prometheus, time.Now(), prometheusWindow)
		if errors.Is(err, discover.ErrInvalid) {
			return nil, nil, badInput(err)
		}
		part = errors.Join(part, err)
	}
	for _, file := range o.files {
		err := c.ReadFile(file, std.in)
		var path *os.PathError
		if errors.As(err, &path) {
			return nil, nil, badInput(err)
		}
		if err != nil {
			part = badInput(errors.Join(part, err))
		}
	}
	return c, part, nil
}

// write writes the file of -out and prints the discovery.
func (o *discoverOptions) write(d *discover.Discovery, std stdio) error {
	if o.out != "" {
		var fleet bytes.Buffer
		if err := d.WriteFleet(&fleet); err != nil {
			return err
		}
		if err := page.WriteFile(o.out, fleet.Bytes()); err != nil {
			return err
		}
		fmt.Fprintf(std.err, "cotenant discover: wrote %s\n", o.out)
		if err := d.Fleet.Validate(); err != nil {
			why := strings.ReplaceAll(err.Error(), "\n", "; ")
			fmt.Fprintf(std.err, "cotenant discover: note: it can't be decided yet: %s\n", why)
		}
	}
	if o.json {
		return page.JSON(std.out, d)
	}
	return d.WriteText(std.out)
}
