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

// prices are the prices of GPU hours, by a GPU's UUID, by a part of its name as the driver gives it, or for all others
// under defaultPrice.
type prices map[string]cost.Money

const defaultPrice = "default"

// readPrices reads a YAML file of names and prices; "" is none.
func readPrices(file string) (prices, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("-prices: %w", err)
	}
	var texts map[string]string
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&texts); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("-prices: %s: %s (use lines of NAME: PRICE)", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if decoder.Decode(new(yaml.Node)) == nil {
		return nil, fmt.Errorf("-prices: %s: more than one document (split them into one file each)", file)
	}
	p, currency := prices{}, ""
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		m, err := cost.ParseMoney(texts[name])
		currency = cmp.Or(currency, m.Currency())
		switch {
		case err != nil:
		case name == "":
			err = fmt.Errorf("an empty name (use %s for all other GPUs)", defaultPrice)
		case m.Sign() < 0 || m.Micros() > 1e12:
			err = fmt.Errorf("%v an hour (use 0 to a million)", m)
		case m.Currency() != currency:
			err = fmt.Errorf("%v among prices in %s (use one currency)", m, currency)
		}
		if p[name] = m; err != nil {
			errs = append(errs, fmt.Errorf("-prices: %s: %s: %w", file, name, err))
		}
	}
	return p, errors.Join(errs...)
}

// of returns the price of a GPU's hour: by its UUID, else by the longest name that fits; the zero Money where there is
// none.
func (p prices) of(uuid, name string) cost.Money {
	if m, ok := p[uuid]; ok {
		return m
	}
	best := ""
	for n := range p {
		if strings.Contains(name, n) && (len(n) > len(best) || len(n) == len(best) && n < best) {
			best = n
		}
	}
	return p[cmp.Or(best, defaultPrice)]
}
