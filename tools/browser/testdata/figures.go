//go:build ignore

// Figures computes by package cost the figures of the calculator's page: a line of standard input is the JSON of GPUs,
// micro-units of USD for a GPU-hour, workloads on each GPU, and utilisation and overhead in parts per million.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/cotenant/cotenant/cost"
)

func main() {
	out := [][5]any{}
	for in := json.NewDecoder(os.Stdin); in.More(); {
		var v [5]int64
		if err := in.Decode(&v); err != nil {
			log.Fatal(err)
		}
		price, err := cost.FromMicros(v[1], "USD")
		if err != nil {
			log.Fatal(err)
		}
		f, err := cost.SharedFleet{GPUs: int(v[0]), PricePerGPUHour: price, Tenants: int(v[2]),
			Utilisation: float64(v[3]) / 1e6, Overhead: cost.PPM(v[4])}.Figures()
		if err != nil {
			log.Fatal(err)
		}
		out = append(out, [5]any{fmt.Sprint(f.PerWorkloadHour.Micros()), fmt.Sprint(int64(f.Saving.Fraction)),
			f.CapacityHours, f.UtilisationHours, f.Needed})
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		log.Fatal(err)
	}
}
