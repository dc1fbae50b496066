// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/decision/layout"
	"github.com/cotenant/cotenant/decision/placement"
	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/sharing"
)

// task is a row of a task file. num_gpu 0 is a task without GPU.
type task struct {
	name    string
	request placement.Request
}

func (t *task) milli() int64 { return int64(t.request.GPUs) * int64(t.request.Milli) }

// turns is the mechanism by which tasks share GPUs.
var turns = []sharing.Mechanism{sharing.MechanismTimeSlicing}

const maxTraceBytes = 256 << 20 // of a file

// table reads a CSV file with a header and hands out its cells with their line and column.
type table struct {
	file    string
	list    problem.List
	columns map[string]int
	names   map[string]int // line of a name
}

// row is one line of it.
type row struct {
	t    *table
	line int
	cols []int // column of each field, in characters
	rec  []string
}

func (t *table) addf(line, column int, remedy, format string, args ...any) {
	path := t.file
	if line > 0 {
		path += ":" + strconv.Itoa(line)
		if column > 0 {
			path += ":" + strconv.Itoa(column)
		}
	}
	t.list.If(t.list.Len() < problem.Enough, path, remedy, format, args...)
}

// read calls each for every row that has all columns.
func (t *table) read(in io.Reader, required []string, each func(row)) {
	t.names = map[string]int{}
	cr := csv.NewReader(io.LimitReader(in, maxTraceBytes+1))
	cr.FieldsPerRecord = -1
	cr.ReuseRecord = true
	for {
		rec, err := cr.Read()
		var pe *csv.ParseError
		switch {
		case cr.InputOffset() > maxTraceBytes:
			t.addf(0, 0, "", "the file is larger than %d MiB", maxTraceBytes>>20)
			return
		case errors.Is(err, io.EOF):
			if t.columns == nil {
				t.addf(0, 0, "the first line must name the columns", "the file is empty")
			}
			return
		case errors.As(err, &pe):
			t.addf(pe.Line, pe.Column, "", "%v", pe.Err)
			return
		case err != nil:
			t.addf(0, 0, "", "%v", err)
			return
		case t.columns == nil:
			if !t.header(rec, required) {
				return
			}
			continue
		}
		r := row{t: t, rec: rec}
		for i := range rec {
			line, col := cr.FieldPos(i)
			if i == 0 {
				r.line = line
			}
			r.cols = append(r.cols, col)
		}
		if len(rec) != len(t.columns) {
			t.addf(r.line, 0, "", "%d fields where the header has %d", len(rec), len(t.columns))
			continue
		}
		each(r)
	}
}

func (t *table) header(rec, required []string) bool {
	t.columns = map[string]int{}
	for i, name := range rec {
		name = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))
		if at, ok := t.columns[name]; ok {
			t.addf(1, 0, "", "column %q stands twice, as number %d and %d", name, at+1, i+1)
		}
		t.columns[name] = i
	}
	for _, name := range required {
		if _, ok := t.columns[name]; !ok {
			t.addf(1, 0, "the columns are "+strings.Join(required, ", "), "there is no column %q", name)
		}
	}
	return t.list.Len() == 0
}

// text is the cell of a column, "" where the file has no such column.
func (r row) text(column string) string {
	i, ok := r.t.columns[column]
	if !ok {
		return ""
	}
	return strings.TrimSpace(r.rec[i])
}

func (r row) bad(column, remedy, format string, args ...any) {
	r.t.addf(r.line, r.cols[r.t.columns[column]], remedy, column+": "+format, args...)
}

// number reads a whole number between 0 and high.
func (r row) number(column string, high int64) int64 {
	s := r.text(column)
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil:
		r.bad(column, "", "%.40q is no whole number", s)
	case n < 0 || n > high:
		r.bad(column, fmt.Sprintf("use 0 to %d", high), "%d is out of range", n)
	}
	return n
}

// name reads a name that must be there and must not stand in the file twice.
func (r row) name(column string) string {
	s := r.text(column)
	if s == "" {
		r.bad(column, "", "empty")
	}
	if first, ok := r.t.names[s]; ok {
		r.bad(column, "", "%.60q is the name on line %d as well", s, first)
	}
	r.t.names[s] = r.line
	return s
}

const maxCPU, maxMiB = placement.MaxCPUMilli, int64(placement.MaxMemory >> 20)

// readNodes reads a node file. GPUs are shared by time-slicing: the trace does
// not say by what, and fractions fit one mechanism as well as another.
func readNodes(file string, in io.Reader) ([]layout.Node, error) {
	t := table{file: file}
	var nodes []layout.Node
	kinds := map[string]*layout.GPU{}
	t.read(in, []string{"sn", "cpu_milli", "memory_mib", "gpu", "model"}, func(r row) {
		n := layout.Node{
			Name: r.name("sn"), CPUMilli: r.number("cpu_milli", maxCPU),
			Memory: sharing.Bytes(r.number("memory_mib", maxMiB)) * sharing.MiB,
		}
		model := r.text("model")
		gpus := r.number("gpu", placement.MaxGPUs)
		if gpus == 0 {
			r.bad("gpu", "leave out nodes without GPUs", "a node of zero GPUs")
		}
		if model == "" {
			r.bad("model", "", "empty")
		}
		if t.list.Len() > 0 {
			return
		}
		if kinds[model] == nil {
			kinds[model] = &layout.GPU{Name: model}
		}
		n.Devices = make([]layout.Device, gpus)
		for i := range n.Devices {
			n.Devices[i] = layout.Device{GPU: kinds[model], Mode: sharing.MechanismTimeSlicing}
		}
		nodes = append(nodes, n)
	})
	if t.list.Len() == 0 && len(nodes) == 0 {
		t.addf(0, 0, "", "there is no node")
	}
	return nodes, t.list.Err()
}

// readTasks reads a task file for an empty cluster. A task that is larger than every node
// is refused: no policy could place it.
func readTasks(file string, in io.Reader, empty *layout.Cluster) ([]task, error) {
	t := table{file: file}
	var tasks []task
	fits := map[string]string{}
	t.read(in, []string{"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"}, func(r row) {
		before := t.list.Len()
		k := task{name: r.name("name")}
		k.request = placement.Request{
			CPUMilli: r.number("cpu_milli", maxCPU),
			Memory:   sharing.Bytes(r.number("memory_mib", maxMiB)) * sharing.MiB,
			GPUs:     int(r.number("num_gpu", placement.MaxGPUs)),
		}
		milli := r.number("gpu_milli", 1000)
		for m := range strings.SplitSeq(r.text("gpu_spec"), "|") {
			if m = strings.TrimSpace(m); m != "" {
				k.request.Models = append(k.request.Models, m)
			}
		}
		if k.request.GPUs > 0 {
			k.request.Mechanisms = turns
			if k.request.Milli = int(milli); milli == 0 {
				r.bad("gpu_milli", "1000 is a whole GPU", "0 of a GPU with num_gpu %d", k.request.GPUs)
			}
		}
		if t.list.Len() > before {
			return
		}
		key := fmt.Sprint(k.request)
		why, ok := fits[key]
		if !ok {
			why = largerThanAll(k.request, empty)
			fits[key] = why
		}
		if why != "" {
			t.addf(r.line, 0, "no policy could place it: leave it out", "%s is larger than any node: %s", k.name, why)
		}
		tasks = append(tasks, k)
	})
	if t.list.Len() == 0 && !slices.ContainsFunc(tasks, func(k task) bool { return k.request.GPUs > 0 }) {
		t.addf(0, 0, "", "there is no task that asks for a GPU")
	}
	return tasks, t.list.Err()
}

// largerThanAll returns the reason why a request fits none of the nodes when they are empty, or "". A model that no
// node has, or only ones that are too small, is no mistake of the file: such tasks fail.
func largerThanAll(r placement.Request, empty *layout.Cluster) string {
	r.Models = nil
	if e := placement.NewScorer(placement.BestFit, nil).Unplaced(empty, &r); e != nil {
		return e.Reasons[0].Example
	}
	return ""
}
