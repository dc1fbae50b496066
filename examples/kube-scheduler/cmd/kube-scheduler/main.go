// SPDX-License-Identifier: Apache-2.0

// Command kube-scheduler is the Kubernetes scheduler with the Cotenant plugin built in.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // build_info
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/cotenant/cotenant/examples/kube-scheduler/plugin"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(plugin.Name, plugin.New))))
}
