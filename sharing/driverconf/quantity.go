package driverconf

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cotenant/cotenant/internal/problem"
	"github.com/cotenant/cotenant/internal/strictyaml"
	"github.com/cotenant/cotenant/sharing"
)

// quantity is a Kubernetes quantity in bytes. What cannot be read is reported where it stands.
type quantity sharing.Bytes

// DecodeNode reads a quantity that is written as a string or a number.
func (q *quantity) DecodeNode(d *strictyaml.Decoder, path string, n *yaml.Node) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" && n.Tag != "!!int" && n.Tag != "!!float" {
		d.Addf(path, n, `write a quantity such as "10Gi"`, "must be an amount of memory")
		return
	}
	v, err := parseQuantity(n.Value)
	if err != nil {
		d.Addf(path, n, `write a quantity such as "10Gi"`, "%v", err)
		return
	}
	*q = quantity(v)
}

var quantityForm = regexp.MustCompile(`^([0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})` +
	`(?:([KMGTPE])i|([mkMGTPE])|([eE][+-]?[0-9]{1,2}))?$`)

// exponents are the decimal suffixes.
var exponents = map[string]string{"m": "e-3", "k": "e3", "M": "e6", "G": "e9", "T": "e12", "P": "e15", "E": "e18"}

// parseQuantity reads a Kubernetes quantity as bytes, rounded up to a whole
// byte as Kubernetes does. Negative quantities are refused.
func parseQuantity(s string) (sharing.Bytes, error) {
	m := quantityForm.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("%q is not a quantity", problem.Clip(s))
	}
	r, ok := new(big.Rat).SetString(strings.TrimSuffix(m[1], ".") + exponents[m[3]] + m[4])
	if !ok {
		return 0, fmt.Errorf("%q is not a quantity", s)
	}
	if m[2] != "" {
		binary := new(big.Int).Lsh(big.NewInt(1), uint(10*(1+strings.Index("KMGTPE", m[2]))))
		r.Mul(r, new(big.Rat).SetInt(binary))
	}
	q, rest := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	if !q.IsInt64() {
		return 0, fmt.Errorf("%q does not fit 63 bits", s)
	}
	return sharing.Bytes(q.Int64()), nil
}

// formatQuantity writes bytes as a Kubernetes quantity, exactly.
func formatQuantity(b sharing.Bytes) string {
	for _, u := range []struct {
		suffix string
		size   sharing.Bytes
	}{{"Gi", sharing.GiB}, {"Mi", sharing.MiB}, {"Ki", sharing.KiB}} {
		if b != 0 && b%u.size == 0 {
			return strconv.FormatInt(int64(b/u.size), 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}
