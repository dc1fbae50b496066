// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
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

// prices holds the prices of GPU hours.
type prices struct {
	// Default is for GPUs that no other line names.
	Default cost.Money
	// Names are by part of the GPU's name as the driver gives it; the longest that fits counts.
	Names map[string]cost.Money
	// GPUs are by UUID.
	GPUs map[string]cost.Money
}

// priceFile is the form of the file.
type priceFile struct {
	Default     string
	Names, GPUs map[string]string
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
	var text priceFile
	var errs []error
	bad := func(problem string) { errs = append(errs, fmt.Errorf("-prices: %s: %s", file, problem)) }
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&text); err != nil && !errors.Is(err, io.EOF) {
		bad(strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "\n ", ""))
	}
	if !errors.Is(dec.Decode(new(yaml.Node)), io.EOF) {
		bad("more than one document (split them into one file each)")
	}
	currency := ""
	read := func(at, price string) cost.Money {
		m, err := cost.ParseMoney(price)
		switch {
		case err != nil:
			bad(fmt.Sprintf("%s: %v", at, err))
		case m.Sign() < 0 || m.Micros() > 1e12:
			bad(fmt.Sprintf("%s: %v an hour (use 0 to a million)", at, m))
		}
		if m == (cost.Money{}) {
			return m
		}
		currency = cmp.Or(currency, m.Currency())
		if m.Currency() != currency {
			bad(fmt.Sprintf("%s: %v beside %s (use one currency)", at, m, currency))
		}
		return m
	}
	all := func(at string, prices map[string]string) map[string]cost.Money {
		out := make(map[string]cost.Money, len(prices))
		for _, n := range slices.Sorted(maps.Keys(prices)) {
			out[n] = read(at+"."+n, prices[n])
		}
		return out
	}
	if text.Default != "" {
		p.Default = read("default", text.Default)
	}
	if _, empty := text.Names[""]; empty {
		bad("names: an empty name (write a part of the GPU's name; for all others there is default)")
	}
	p.Names, p.GPUs = all("names", text.Names), all("gpus", text.GPUs)
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
