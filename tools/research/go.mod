module github.com/cotenant/cotenant/tools/research

go 1.25.0

require (
	github.com/cotenant/cotenant v0.0.0-00010101000000-000000000000
	github.com/google/go-cmp v0.7.0
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/sync v0.22.0
	golang.org/x/sys v0.47.0
	gonum.org/v1/gonum v0.17.0
)

require github.com/HdrHistogram/hdrhistogram-go v1.4.0 // indirect

replace github.com/cotenant/cotenant => ../..
