// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/cotenant/cotenant/tools/research/replay"
)

// load reads a trace of nodes (name, CPU thousandths, MiB, GPUs, model) and tasks (name, CPU thousandths, MiB, GPUs,
// thousandths of a GPU, models that will do) from files.
func load(nodes, tasks string) (*replay.Cluster, error) {
	dir, err := os.MkdirTemp("", "trace")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	nodeFile, taskFile := filepath.Join(dir, "nodes.csv"), filepath.Join(dir, "tasks.csv")
	if err := errors.Join(os.WriteFile(nodeFile, []byte("sn,cpu_milli,memory_mib,gpu,model\n"+nodes), 0o600),
		os.WriteFile(taskFile, []byte("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"+tasks), 0o600)); err != nil {
		log.Fatal(err)
	}
	c, err := replay.Load(nodeFile, taskFile)
	if err != nil {
		err = errors.New(strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), ""))
	}
	return c, err
}

// Which policy gets most of the GPUs allocated, when tasks ask for 1.3 times as many as there are? One that places more
// tasks may have placed the small ones.
func ExampleCluster_Replay() {
	c, err := replay.Load("", "")
	if err != nil {
		log.Fatal(err)
	}
	for _, policy := range replay.Policies() {
		r, err := c.Replay(context.Background(), policy, 42, 1.3)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %.1f%% allocated, %d placed, %d refused\n", policy, r.Allocated, r.Placed, r.Failed)
	}
	// Output:
	// random: 94.0% allocated, 193 placed, 27 refused
	// best-fit: 95.7% allocated, 167 placed, 53 refused
	// fgd: 98.4% allocated, 175 placed, 45 refused
	// cotenant: 99.4% allocated, 180 placed, 40 refused
}

// How much of the GPUs could any policy get allocated? Tasks of 60% of a GPU leave what nobody takes, unless others fit
// beside them.
func ExampleCluster_Bound() {
	for _, tasks := range []string{"a,4000,8192,1,600,\n", "a,4000,8192,1,600,\nb,4000,8192,1,300,\n", "a,4000,8192,1,600,\nb,4000,8192,1,300,\nc,4000,8192,1,100,\n"} {
		c, err := load("n1,64000,262144,4,T4\n", tasks)
		if err != nil {
			log.Fatal(err)
		}
		bound, err := c.Bound(context.Background(), 2)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%.1f%%\n", bound)
	}
	// Output:
	// 60.0%
	// 90.0%
	// 100.0%
}

// A policy is judged by ten orders of arrival and not by one.
func ExampleCluster_Compare() {
	c, err := replay.Load("", "")
	if err != nil {
		log.Fatal(err)
	}
	all, err := c.Compare(context.Background(), 42, 1.3)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range all.Policies {
		fmt.Printf("%s: mean of %d seeds %.1f%%, a placed task has %.2f GPUs, a refused one %.2f\n", p.Name, len(p.Allocated), p.Mean, p.PlacedGPUs, p.FailedGPUs)
	}
	// Output:
	// random: mean of 10 seeds 92.1%, a placed task has 0.79 GPUs, a refused one 2.90
	// best-fit: mean of 10 seeds 96.7%, a placed task has 0.96 GPUs, a refused one 1.10
	// fgd: mean of 10 seeds 97.7%, a placed task has 0.96 GPUs, a refused one 1.11
	// cotenant: mean of 10 seeds 99.4%, a placed task has 0.96 GPUs, a refused one 1.15
}

// A trace of one's own is two CSV files; what is wrong in them is named by line and column.
func ExampleLoad() {
	c, err := load("n1,64000,262144,2,T4\n", "a,4000,8192,1,500,\nb,4000,8192,1,500,T4\nc,8000,16384,1,1000,\nd,4000,8192,1,300,\n")
	if err != nil {
		log.Fatal(err)
	}
	r, err := c.Replay(context.Background(), "best-fit", 1, 1.2)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range r.Curve {
		fmt.Printf("%.0f%% of the GPUs asked for, %.0f%% allocated\n", p.Arrived, p.Allocated)
	}
	_, err = load("n1,64000,262144,2,T4\n", "a,4000,8192,1,1500,\nb,4000,8192,0.5,500,\n")
	fmt.Println(err)
	// Output:
	// 0% of the GPUs asked for, 0% allocated
	// 50% of the GPUs asked for, 50% allocated
	// 75% of the GPUs asked for, 75% allocated
	// 100% of the GPUs asked for, 100% allocated
	// 115% of the GPUs asked for, 100% allocated
	// tasks.csv:2:15: gpu_milli: 1500 is out of range (use 0 to 1000)
	// tasks.csv:3:13: num_gpu: "0.5" is no whole number
}
