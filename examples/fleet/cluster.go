package main

import (
	_ "embed"
	"io"
	"os"
	"strings"

	"github.com/cotenant/cotenant/decision/placement"
)

// A synthetic trace of our own making (synthetic_test.go draws it), so that the command
// runs without files. Figures for it say nothing about real clusters.
var (
	//go:embed testdata/nodes.csv
	syntheticNodes string
	//go:embed testdata/tasks.csv
	syntheticTasks string
)

// cluster is what a replay starts from.
type cluster struct {
	empty    *placement.Snapshot
	tasks    []task
	mix      *placement.Mix
	capacity int64 // GPU thousandths
	trace    string
}

// load reads a cluster and its tasks; empty names stand for the synthetic trace.
func load(nodeFile, taskFile string) (*cluster, error) {
	c := &cluster{trace: "synthetic"}
	if nodeFile != "" {
		c.trace = nodeFile + ", " + taskFile
	}
	var nodes []placement.Node
	err := open(nodeFile, syntheticNodes, func(name string, in io.Reader) (err error) {
		nodes, err = readNodes(name, in)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range nodes {
		c.capacity += 1000 * int64(len(nodes[i].GPUs))
	}
	if c.empty, err = placement.NewSnapshot(nodes); err != nil {
		return nil, err
	}
	err = open(taskFile, syntheticTasks, func(name string, in io.Reader) (err error) {
		c.tasks, err = readTasks(name, in, c.empty)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.mix, err = mixOf(c.tasks)
	return c, err
}

func open(file, builtIn string, read func(string, io.Reader) error) error {
	if file == "" {
		return read("synthetic", strings.NewReader(builtIn))
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return read(file, f)
}
