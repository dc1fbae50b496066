package discover

import (
	"io"
	"os"
)

// LoadOptions reads prices and hints from files; an empty name stands for none. Errors are those of [ParsePrices],
// [ParseHints] and of opening the files.
func LoadOptions(prices, hints string) (o Options, err error) {
	var data []byte
	if prices != "" {
		if data, err = os.ReadFile(prices); err == nil {
			o.Prices, err = ParsePrices(data)
		}
	}
	if err == nil && hints != "" {
		if data, err = os.ReadFile(hints); err == nil {
			o.Hints, err = ParseHints(data)
		}
	}
	return o, err
}

// ReadFile is [Collector.Read] of a file, or of stdin where it is named "-".
func (c *Collector) ReadFile(file string, stdin io.Reader) error {
	if file == "-" {
		return c.Read("standard input", stdin)
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return c.Read(file, f)
}
