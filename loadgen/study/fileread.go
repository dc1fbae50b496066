// SPDX-License-Identifier: Apache-2.0

package study

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/loadgen"
	"github.com/cotenant/cotenant/loadgen/prompt"
)

// readTLS reads the endpoint's certificates.
func (e *Endpoint) readTLS(l *problem.List, path, dir string) {
	if e.CAFile+e.CertFile+e.KeyFile == "" {
		return
	}
	l.If(!strings.HasPrefix(strings.ToLower(e.URL), "https:"), path,
		"use https, or remove ca_file, cert_file and key_file", "certificates have no effect without an https endpoint")
	e.tls = &tls.Config{}
	if e.CAFile != "" {
		pem, err := os.ReadFile(join(dir, e.CAFile))
		l.AddErr(path+".ca_file", err)
		e.tls.RootCAs = x509.NewCertPool()
		l.If(err == nil && !e.tls.RootCAs.AppendCertsFromPEM(pem), path+".ca_file", "give certificate authorities",
			"%s holds no certificate in PEM", e.CAFile)
	}
	if e.CertFile+e.KeyFile != "" {
		l.If(e.CertFile == "" || e.KeyFile == "", path, "give both cert_file and key_file", "one of them is missing")
		cert, err := tls.LoadX509KeyPair(join(dir, e.CertFile), join(dir, e.KeyFile))
		l.AddErr(path+".cert_file", err)
		e.tls.Certificates = []tls.Certificate{cert}
	}
}

func (t *Tenant) read(l *problem.List, path string, opts FileOptions, seed uint64) {
	var err error
	switch {
	case t.Trace != nil:
		t.trace, err = t.Trace.read(opts.Dir)
		l.AddErr(path+".trace", err)
	case t.Synthetic != nil:
		t.synthetic = t.Synthetic.options(l, path+".synthetic", seed)
	default:
		t.prompts, err = t.readPrompts(opts)
		l.AddErr(path+".prompts", err)
	}
}

const mostTrace = 1 << 30 // bytes

func (t *Trace) read(dir string) (*prompt.Trace, error) {
	data, err := strictyaml.ReadFile(join(dir, t.File), strictyaml.Options{MaxBytes: mostTrace})
	if err != nil {
		return nil, err
	}
	format, err := prompt.DetectTrace(data)
	if err != nil {
		return nil, err
	}
	trace, err := prompt.ReadTrace(format, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if trace = trace.Slice(t.From, t.To); len(trace.Requests) == 0 {
		return nil, fmt.Errorf("no request between %v and %v", t.From, t.To)
	}
	return trace, nil
}

func join(dir, file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(dir, file)
}

// readPrompts reads the tenant's prompts and sees to it that they fit the API: messages don't fit completions. They
// are left out of the default set and refused in a file.
func (t *Tenant) readPrompts(opts FileOptions) (prompts []loadgen.Prompt, err error) {
	switch {
	case t.Prompts == "":
		prompts = opts.Prompts
	case t.Prompts == "-" && opts.Stdin != nil:
		prompts, err = prompt.Read(opts.Stdin)
	default:
		f, openErr := os.Open(join(opts.Dir, t.Prompts))
		if openErr != nil {
			return nil, openErr
		}
		defer f.Close()
		prompts, err = prompt.Read(f)
	}
	if err != nil || t.API != loadgen.APICompletions {
		return prompts, err
	}
	var fit []loadgen.Prompt
	for i, p := range prompts {
		if len(p.Messages) > 0 && t.Prompts != "" {
			return nil, fmt.Errorf("prompt %d has messages, which -api completions has no place for (give it as \"prompt\")",
				i+1)
		}
		if len(p.Messages) == 0 {
			fit = append(fit, p)
		}
	}
	return fit, nil
}

func (s *Synthetic) options(l *problem.List, path string, seed uint64) *prompt.SyntheticOptions {
	o := &prompt.SyntheticOptions{Input: s.Input.lengths(l, path+".input"), Output: s.Output.lengths(l, path+".output"),
		Prefix: s.Prefix, Seed: seed}
	if l.Len() == 0 {
		_, err := prompt.NewSynthetic(*o)
		l.AddErr(path, err)
	}
	return o
}

func (p *Lengths) lengths(l *problem.List, path string) prompt.Lengths {
	if n := count(p.Fixed != 0, p.LogNormal != nil, p.Empirical != nil); n != 1 {
		l.Addf(path, "set exactly one of fixed, log_normal and empirical", "%d of them", n)
	}
	switch {
	case p.LogNormal != nil:
		return *p.LogNormal
	case p.Empirical != nil:
		return prompt.Empirical(p.Empirical)
	}
	return prompt.Fixed(p.Fixed)
}
