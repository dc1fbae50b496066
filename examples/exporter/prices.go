package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/cost"
)

// prices are what an hour of a GPU costs.
type prices struct {
	// Default is for GPUs that no other line names.
	Default cost.Money `yaml:"default"`
	// Names are by part of the GPU's name as the driver gives it; the longest
	// that fits counts.
	Names map[string]cost.Money `yaml:"names"`
	// GPUs are by UUID.
	GPUs map[string]cost.Money `yaml:"gpus"`
}

// readPrices reads a file of prices; "" is none.
func readPrices(file string) (prices, error) {
	var p prices
	if file == "" {
		return p, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return p, fmt.Errorf("-prices: %w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("-prices: %s: %w (known keys: default, names, gpus; prices as \"3.25 USD\")", file, err)
	}
	if !errors.Is(d.Decode(new(yaml.Node)), io.EOF) {
		return p, fmt.Errorf("-prices: %s: more than one document (split them into one file each)", file)
	}
	var errs []error
	currency := ""
	check := func(at string, m cost.Money) {
		if m.Sign() < 0 || m.Micros() > 1e12 {
			errs = append(errs, fmt.Errorf("-prices: %s: %s: %v an hour (use 0 to a million)", file, at, m))
		}
		if m == (cost.Money{}) {
			return
		}
		if currency == "" {
			currency = m.Currency()
		}
		if m.Currency() != currency {
			errs = append(errs, fmt.Errorf("-prices: %s: %s: %v beside %s (use one currency)", file, at, m, currency))
		}
	}
	check("default", p.Default)
	for _, n := range slices.Sorted(maps.Keys(p.Names)) {
		if n == "" {
			errs = append(errs, fmt.Errorf("-prices: %s: names: an empty name (write a part of the GPU's name; for all others there is default)", file))
		}
		check("names."+n, p.Names[n])
	}
	for _, n := range slices.Sorted(maps.Keys(p.GPUs)) {
		check("gpus."+n, p.GPUs[n])
	}
	return p, errors.Join(errs...)
}

// of returns the price of a GPU's hour; the zero Money where there is none.
func (p *prices) of(uuid, name string) cost.Money {
	if m, ok := p.GPUs[uuid]; ok {
		return m
	}
	best, price := "", p.Default
	for _, n := range slices.Sorted(maps.Keys(p.Names)) {
		if strings.Contains(name, n) && len(n) > len(best) {
			best, price = n, p.Names[n]
		}
	}
	return price
}
