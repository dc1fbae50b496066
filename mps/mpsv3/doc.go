// Package mpsv3 drives CUDA MPS through protocol v3, the opt-in protocol of
// driver 615 and later with named servers, namespaces and partitions.
//
// It is experimental: its forms are those of NVIDIA's documentation
// (https://docs.nvidia.com/deploy/mps/mpsv3-interface.html), this project has
// seen none of them on hardware, and the API may change with the first. An
// answer of another form is an mps.ParseError.
//
// Client talks to a daemon, Dialect makes mps.Start start one, Setup is its
// configuration file, and ClientEnvironment is what a client needs to join a
// namespace. Package mpsv3test has a fake daemon for tests.
//
// Two traps, both measured by NVIDIA on an RTX PRO 6000 with driver 615
// (https://github.com/ai-dynamo/dynamo): a namespace inherits no limit
// from its server, and a server that is allowed a device which does not exist
// is created with success, dies, and leaves its clients without MPS.
package mpsv3
