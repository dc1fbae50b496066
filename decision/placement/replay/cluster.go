package replay

import (
	_ "embed"
	"io"
	"os"
	"strings"

	"github.com/cotenant/cotenant/decision/placement"
)

// The synthetic trace, which synthetic_test.go draws. Its figures say nothing about real clusters.
var (
	//go:embed builtin/nodes.csv
	syntheticNodes string
	//go:embed builtin/tasks.csv
	syntheticTasks string
)

// Cluster is an empty cluster with the tasks that arrive at it. It is read-only and safe for concurrent use.
type Cluster struct {
	empty    *placement.Snapshot
	tasks    []task
	mix      *placement.Mix
	capacity int64 // GPU thousandths
	trace    string
}

// Load reads the CSV files of a trace in the columns of openb: of nodes sn, cpu_milli, memory_mib, gpu and model,
// of tasks name, cpu_milli, memory_mib, num_gpu, gpu_milli and gpu_spec. Empty names stand for a small synthetic
// trace. The error names every problem by file, line and column.
func Load(nodeFile, taskFile string) (*Cluster, error) {
	c := &Cluster{trace: "synthetic"}
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
