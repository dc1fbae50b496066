// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package cudaprobe

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/cotenant/cotenant/decision/probe"
)

// childVariable, set in the environment, makes a process one of the probe's.
const childVariable = "COTENANT_CUDAPROBE_CHILD"

// asked is set when main asks whether the process is a child.
var asked atomic.Bool

// If this process was started as a process of the probe, Child works until its input ends, and returns the exit code
// and true. Otherwise it returns false at once. Call it first in main.
func Child() (code int, is bool) {
	asked.Store(true)
	if os.Getenv(childVariable) == "" {
		return 0, false
	}
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

// request is one line of JSON to a child.
type request struct {
	Task  *probe.Task        `json:"task,omitempty"`
	Tune  bool               `json:"tune,omitempty"`
	Rates map[string]float64 `json:"rates,omitempty"`
}

// response is a child's answer. The first one, which describes the GPU, comes unasked.
type response struct {
	Error   string             `json:"error,omitempty"`
	Info    *probe.Info        `json:"info,omitempty"`
	Rates   map[string]float64 `json:"rates,omitempty"`
	Reading *probe.Reading     `json:"reading,omitempty"`
}

func (r *response) err() error {
	if r.Error == "" {
		return nil
	}
	return errors.New(r.Error)
}

// serve answers requests until there are no more.
func serve(in io.Reader, out io.Writer) error {
	runtime.LockOSThread() // a context belongs to a thread
	answer := json.NewEncoder(out)
	g, info, err := begin()
	hello := response{Info: &info}
	if err != nil {
		hello.Error = err.Error()
	}
	if err := errors.Join(err, answer.Encode(hello)); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var q request
		var a response
		err := json.Unmarshal(lines.Bytes(), &q)
		switch {
		case err != nil:
		case q.Tune:
			a.Rates, err = g.tune()
		case q.Task != nil:
			var r probe.Reading
			r, err = g.do(*q.Task, q.Rates)
			a.Reading = &r
		}
		if err != nil {
			a = response{Error: err.Error()}
		}
		if err := answer.Encode(a); err != nil {
			return err
		}
	}
	return lines.Err()
}

// begin opens the first device that the process sees.
func begin() (*gpu, probe.Info, error) {
	version, err := loadDriver()
	if err != nil {
		return nil, probe.Info{}, err
	}
	info, device, err := describe(0, version)
	if err != nil {
		return nil, info, err
	}
	g, err := openGPU(device, info.SMs)
	if err == nil {
		info.Free, err = g.memory()
	}
	return g, info, err
}
