// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/cotenant/cotenant/decision/canary"
	"github.com/cotenant/cotenant/examples/internal/page"
)

//go:embed canary.yaml
var canaryExample string

func runCanary(ctx context.Context, fl *call, std stdio) error {
	plan := fl.String("plan", "", "plan `FILE`, YAML: the newcomer, its neighbours, and their objectives")
	printPlan := fl.Bool("print-plan", false, "print a plan to start from and exit")
	listen := fl.String("listen", "", "`ADDRESS` to answer rollout controllers at, such as :8080")
	if err := fl.parse(0, std); err != nil {
		return err
	}
	if *printPlan {
		return printText(std.out, canaryExample)
	}
	var probs []error
	if *plan == "" {
		probs = append(probs, errors.New("-plan: give a FILE; -print-plan prints one to start from"))
	}
	if *listen == "" {
		probs = append(probs, errors.New("-listen: give an ADDRESS that the rollout controller can reach, such as :8080"))
	}
	if len(probs) > 0 {
		return badInput(errors.Join(probs...))
	}
	p, err := canary.LoadPlan(*plan)
	if err != nil {
		return badInput(err)
	}
	endpoint, err := canary.NewEndpoint(p, func(r canary.Result) { _ = printText(std.out, page.Fold(r.String())) })
	if err != nil {
		return badInput(err)
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return badInput(fmt.Errorf("-listen: %w", err))
	}
	fmt.Fprintf(std.err, "answering at %s for %d tenants\n", l.Addr(), len(p.Tenants))
	srv := &http.Server{Handler: endpoint, ReadTimeout: time.Minute}
	served := make(chan error, 1)
	observing, stop := context.WithCancel(ctx)
	go func() {
		served <- srv.Serve(l)
		stop()
	}()
	endpoint.Run(observing)
	stop()
	closeErr := srv.Close()
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return errors.Join(err, closeErr)
	}
	return closeErr // Ctrl-C ends it
}
