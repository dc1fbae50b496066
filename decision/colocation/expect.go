// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cotenant/cotenant/decision/predict"
	"github.com/cotenant/cotenant/decision/predict/profile"
	"github.com/cotenant/cotenant/sharing"
)

// predict predicts the mode's cases from the isolated runs, and writes the predictions to a file.
func (f *planFlow) predict(m sharing.Mechanism) error {
	profiles, from, err := f.profiles()
	if err != nil {
		return err
	}
	file := predictionFile{Basis: f.site.basis(), Mode: m, Written: time.Now(), From: from, Predictor: *f.Predictor}
	for _, c := range f.plan.Cases {
		p := prediction{Mode: m, Case: c.Name, written: file.Written}
		if p.Tenants, err = f.predictCase(m, c, profiles); err != nil {
			p.Problem = err.Error()
			f.note("%s: no prediction: %s", m, p.Problem)
		}
		file.Cases = append(file.Cases, p)
	}
	f.predictions = append(f.predictions, file.Cases...)
	name := filepath.Join(m.String(), "predictions.json")
	return errors.Join(f.write(name, file), os.Chmod(filepath.Join(f.Dir, name), 0o444))
}

func (f *planFlow) predictCase(m sharing.Mechanism, c Case, profiles *profile.Profiles) ([]tenantPrediction, error) {
	var group []profile.Solo
	for _, name := range c.Loads {
		l := f.plan.load(name)
		solo, err := profiles.Solo(f.serverOf(m, l), f.loadOf(l))
		if err != nil {
			return nil, err
		}
		group = append(group, solo)
	}
	predictions, err := f.Predictor.Predict(predictedAs(m), group, predict.MethodSimulated)
	if err != nil {
		return nil, err
	}
	var out []tenantPrediction
	for i, p := range predictions {
		out = append(out, tenantPrediction{Load: c.Loads[i], Basis: p.Basis, Predicted: maps.Collect(p.All()),
			Slowdown: p.Slowdown, Slices: p.Turns, OtherSlices: p.OtherTurns, Notes: p.Notes})
	}
	return out, nil
}

// serverOf is a load's server as profiles know it.
func (f *planFlow) serverOf(m sharing.Mechanism, l *Load) profile.Server {
	s, _ := f.plan.serverFor(l)
	key := profile.Server{Model: s.Model}
	if s.Slots > 0 {
		key.Slots = profile.Some(s.Slots)
	}
	if s.Percent > 0 && m == sharing.MechanismMIGLikeEmulation {
		key.SMPercent = profile.Some(s.Percent)
	}
	if slices.ContainsFunc(f.plan.Servers, func(o Server) bool { return o.Model == s.Model && o.Engine != s.Engine }) {
		key.Variant = s.Engine
	}
	return key
}

func (f *planFlow) loadOf(l *Load) profile.Load {
	s, i := f.plan.serverFor(l)
	if s.Kind != profile.KindServer {
		return profile.Load{}
	}
	return profile.Load{Server: i, Concurrency: l.Concurrency, Rate: l.Rate, Prompt: l.Prompt, Output: l.Output,
		Seed: profile.Some(f.plan.Seed), OutputSpread: outputSpread}
}

// outputSpread is the fraction by which answers are shorter and longer than the plan's length. Clients in a closed loop
// synchronize where all answers have one length, which users do not: three at ik_llama.cpp's isolated server on an
// H100 had their prompts computed together for 30 requests, 18 to 23 ms to a first token and 2.6 to 3 ms a token, and
// then apart, 10 to 16 and 3.9 to 6.
const outputSpread = 0.25

// profiles are the isolated runs so far, as a Predictor takes them, and their folders.
func (f *planFlow) profiles() (ps *profile.Profiles, from []string, err error) {
	ps = &profile.Profiles{}
	gpu, driver := f.site.gpu()
	for i := range f.runs {
		r := &f.runs[i]
		if !r.solo() {
			continue
		}
		dir := filepath.ToSlash(r.dir)
		list := r.rows.Profiles()
		for j := range list {
			list[j].GPU, list[j].Driver, list[j].Run = gpu, driver, dir
		}
		if err := ps.Add(list...); err != nil {
			return ps, nil, fmt.Errorf("%s: %w", dir, err)
		}
		from = append(from, dir)
	}
	return ps, from, nil
}

// predictedAs returns the mechanism that a Predictor knows: emulated slices are MPS clients.
func predictedAs(m sharing.Mechanism) sharing.Mechanism {
	if m == sharing.MechanismMIGLikeEmulation {
		return sharing.MechanismMPS
	}
	return m
}

// predicted finds the prediction of a load in a case, nil if there is none.
func predicted(list []prediction, m sharing.Mechanism, name, load string) (*tenantPrediction, time.Time) {
	for i := range list {
		p := &list[i]
		if p.Mode != m || p.Case != name {
			continue
		}
		for j := range p.Tenants {
			if p.Tenants[j].Load == load {
				return &p.Tenants[j], p.written
			}
		}
	}
	return nil, time.Time{}
}
