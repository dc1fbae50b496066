package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/cotenant/cotenant/decision/advise"
	"github.com/cotenant/cotenant/examples/internal/page"
)

//go:embed usage/advise.txt
var adviseUsage string

func runAdvise(ctx context.Context, args []string, std stdio) error {
	fl := flagSet("advise")
	var o discoverOptions
	fl.BoolVar(&o.kube, "kube", false, "read the live cluster, as discover -kube does")
	prometheusFlag(fl, &o.prometheus)
	fl.StringVar(&o.prices, "prices", "", "`FILE` of prices, as discover reads it")
	fl.StringVar(&o.hints, "hints", "", "`FILE` of what you know better, as discover reads it")
	dir := fl.String("out", "", "`DIR` of the dated files")
	every := fl.Duration("every", 0, "look again after this time, until interrupted; 0 = once")
	patience := fl.Duration("patience", 24*time.Hour, "for how long a proposal must have been the best")
	cron := fl.String("cronjob", "", "write a CronJob that does it in the cluster to this `FILE`, and exit")
	image := fl.String("image", "", "`IMAGE` with this program as its entry point and kubectl on PATH, for -cronjob")
	namespace := fl.String("namespace", "gpu-operator", "namespace of the CronJob")
	if err := parse(fl, args, adviseUsage, len(args), std); err != nil {
		return err
	}
	o.files = fl.Args()
	var wrong []error
	if *dir == "" && *cron == "" {
		wrong = append(wrong, errors.New("-out: name a folder for the looks"))
	}
	if *every < 0 || *every > 0 && *every < time.Second || *patience < 0 {
		wrong = append(wrong, fmt.Errorf("-every %v, -patience %v: use 0, or 1s or more", *every, *patience))
	}
	if len(wrong) > 0 {
		return badInput(errors.Join(wrong...))
	}
	if *cron != "" {
		data, err := advise.CronJob(*namespace, *image, cmp.Or(*every, time.Hour), *patience)
		if err != nil {
			return badInput(err)
		}
		return page.WriteFile(*cron, data)
	}
	for looks := 0; ; looks++ {
		a, err := o.look(ctx, *dir, *patience, std)
		switch {
		case err != nil && (looks == 0 || ctx.Err() != nil):
			return err
		case err != nil: // what worked before may do so again
			page.Fail("cotenant advise", std.err, err)
		case *every == 0 && (a.Stands || a.Now != nil):
			return &exitError{Code: exitNo}
		case *every == 0:
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(*every):
		}
	}
}

// look reads the cluster and advises once.
func (o *discoverOptions) look(ctx context.Context, dir string, patience time.Duration, std stdio) (
	*advise.Advice, error) {
	c, part, err := o.read(ctx, std)
	if err != nil {
		return nil, err
	}
	d := c.Discover()
	if err := errors.Join(part, d.Valid()); err != nil { // of a part of a cluster no look is kept
		return nil, badInput(err)
	}
	opts := advise.Options{Patience: patience}
	for _, u := range d.Unknown {
		opts.Unknown = append(opts.Unknown, u.Why)
	}
	a, err := advise.Look(ctx, dir, time.Now(), &d.Fleet, opts)
	if err != nil {
		return nil, err
	}
	return a, a.WriteText(std.out)
}
