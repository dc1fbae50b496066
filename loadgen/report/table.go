package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/cotenant/cotenant/internal/plaintext"
	"github.com/cotenant/cotenant/loadgen"
)

// resultColumn is a column of the table for people.
type resultColumn struct {
	quantity  Quantity
	statistic string
}

var resultColumns = []resultColumn{
	{QuantityCompleted, ""}, {QuantityFailures, ""}, {QuantityRequestRate, ""}, {QuantityOutputRate, ""},
	{QuantityFirstToken, "p50"}, {QuantityFirstToken, "p99"}, {QuantityPerToken, "mean"},
	{QuantityPerToken, "p99"}, {QuantityGap, "mean"}, {QuantityGap, "p99"}, {QuantityEndToEnd, "p50"},
	{QuantityEndToEnd, "p99"},
}

// ToolResults are runs of several tools, one beside the other.
type ToolResults []ToolResult

// WriteText writes the results as one table for people. Each cell has its unit and the mark of its definition,
// which stands below with the tool's own name for it: cells of one column with different marks do not measure the
// same thing. A figure that a file doesn't have is "-".
func (results ToolResults) WriteText(w io.Writer) error {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "tool\trun\tbasis\tload")
	for _, c := range resultColumns {
		fmt.Fprintf(tw, "\t%s", strings.TrimSuffix(c.quantity.String()+" "+c.statistic, " "))
	}
	fmt.Fprintln(tw)
	var marks definitionMarks
	for i := range results {
		r := &results[i]
		basis := r.Basis
		if basis == "simulated" {
			basis = "SYNTHETIC"
		}
		load := cmp.Or(r.Load, "-")
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s", r.Tool, r.Run, basis, load)
		for _, c := range resultColumns {
			is := func(f ToolFigure) bool { return f.Quantity == c.quantity && f.Statistic == c.statistic }
			cell := "-"
			if k := slices.IndexFunc(r.Figures, is); k >= 0 {
				f := &r.Figures[k]
				cell = strconv.FormatFloat(f.Value, 'g', 5, 64) + strings.TrimPrefix(f.Unit, "1/s") + " [" + marks.of(r.Tool, f) +
					"]"
			}
			fmt.Fprintf(tw, "\t%s", cell)
		}
		fmt.Fprintln(tw)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if len(marks) > 0 {
		b.WriteString("\nWhat the figures mean\n")
	}
	for i, m := range marks {
		fmt.Fprintf(&b, "  [%d] %s\n", i+1, m)
	}
	if slices.ContainsFunc(results, func(r ToolResult) bool { return r.Tool == ToolLoadgen }) {
		fmt.Fprintf(&b, "  loadgen's symbols: %s\n", loadgen.Definitions()["symbols"])
	}
	for i := range results {
		for _, n := range results[i].Notes {
			fmt.Fprintf(&b, "note: %s: %s\n", results[i].Run, n)
		}
	}
	_, err := io.WriteString(w, plaintext.Show(b.String()))
	return err
}

// definitionMarks are the definitions that a table has used, in order.
type definitionMarks []string

func (m *definitionMarks) of(tool Tool, f *ToolFigure) string {
	text := fmt.Sprintf("%s %s: %s", tool, f.Metric, f.Definition)
	i := slices.Index(*m, text)
	if i < 0 {
		i = len(*m)
		*m = append(*m, text)
	}
	return strconv.Itoa(i + 1)
}

// WriteCSV writes every figure of the results, one a line, with its tool's name, unit and definition.
func (results ToolResults) WriteCSV(w io.Writer) error {
	cw := csv.NewWriter(plaintext.NewWriter(w))
	rows := [][]string{{"tool", "run", "basis", "model", "load", "name", "quantity", "statistic", "value", "unit",
		"definition"}}
	for i := range results {
		r := &results[i]
		for _, f := range r.Figures {
			rows = append(rows, []string{r.Tool.String(), r.Run, r.Basis, r.Model, r.Load, f.Name, f.Quantity.String(),
				f.Statistic,
				strconv.FormatFloat(f.Value, 'g', -1, 64), f.Unit, f.Definition})
		}
	}
	return cw.WriteAll(rows)
}
