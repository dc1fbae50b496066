//go:build nightly

package migrate

const randomClusters = 50
