package report

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cotenant/cotenant/internal/problem"
)

// readTable reads a result that is a table, of guidellm (three header rows) or aiperf. It returns nil for another.
func readTable(name string, data []byte, l *problem.List) ToolResults {
	cr := csv.NewReader(bytes.NewReader(data))
	cr.FieldsPerRecord = -1
	var rows [][]string
	for {
		row, err := cr.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			l.Addf(name, "give the tool's own file", "is no table: %v", err)
			return nil
		}
		rows = append(rows, row)
	}
	switch {
	case len(rows) == 0:
		return nil
	case rows[0][0] == "Metric":
		return ToolResults{metricTable(name, rows)}
	case len(rows) > 3 && slices.Contains(rows[0], "Request Counts"):
		header := make([]string, len(rows[0]))
		for i := range header {
			for _, row := range rows[:3] {
				if i < len(row) {
					header[i] = strings.TrimSpace(header[i] + "|" + row[i])
				}
			}
		}
		return guideLLMRows(name, header, rows[3:])
	}
	l.Addf(name, "give a CSV of guidellm or aiperf, or the tool's JSON file", "no known tool's table")
	return nil
}

// tableMetric names a figure of aiperf's by its label in a table.
var tableMetric = map[string]string{
	"request count": "request_count", "error request count": "error_request_count",
	"benchmark duration": "benchmark_duration",
	"request throughput": "request_throughput", "output token throughput": "output_token_throughput",
	"time to first token": "time_to_first_token",
	"inter token latency": "inter_token_latency", "request latency": "request_latency",
}

// metricTable reads rows of metrics: statistics first, then plain values.
func metricTable(name string, rows [][]string) ToolResult {
	r := reported(ToolAIPerf, name)
	var header []string
	for _, row := range rows {
		switch {
		case row[0] == "Metric":
			header = row
			continue
		case row[0] == "" || len(header) < 2 || header[0] != "Metric":
			continue
		case row[0] == "Endpoint": // GPU telemetry
			header = nil
			continue
		}
		label, unit, _ := strings.Cut(strings.TrimSuffix(row[0], ")"), " (")
		metrics := toolMetrics()[ToolAIPerf]
		i := slices.IndexFunc(metrics, func(m toolMetric) bool { return m.Key == tableMetric[strings.ToLower(label)] })
		if i < 0 {
			continue
		}
		m := metrics[i]
		if m.latency() {
			m.Unit = cmp.Or(unit, m.Unit)
		}
		r.statistics(m, header[1:], func(name string) (string, float64, bool) {
			col := slices.Index(header, name)
			if col >= len(row) || m.latency() && name == "Value" {
				return "", 0, false
			}
			v, err := strconv.ParseFloat(strings.ReplaceAll(row[col], ",", ""), 64)
			return row[0] + " " + name, v, err == nil
		})
	}
	return r
}

// guideLLMColumns are the beginnings of guidellm's columns, the three rows of its header joined by bars.
var guideLLMColumns = map[string]string{
	"successful":               "|Request Counts|Successful|",
	"errored":                  "|Request Counts|Errored|",
	"time_to_first_token_ms":   "|Time to First Token|Successful ms",
	"time_per_output_token_ms": "|Time per Output Token|Successful ms",
	"inter_token_latency_ms":   "|Inter Token Latency|Successful ms",
	"request_latency":          "|Request Latency|Successful Sec",
	"requests_per_second":      "|Server Throughput|Successful Requests/Sec",
	"output_tokens_per_second": "|Token Throughput|Successful Output Tokens/Sec",
}

func guideLLMRows(name string, header []string, rows [][]string) ToolResults {
	var results ToolResults
	for k, row := range rows {
		cell := func(column string) string {
			if i := slices.Index(header, column); i >= 0 && i < len(row) {
				return row[i]
			}
			return ""
		}
		r := reported(ToolGuideLLM, name)
		if len(rows) > 1 {
			r.Run = fmt.Sprintf("%s[%d]", name, k)
		}
		r.Load = cell("|Benchmark|Strategy|")
		d := &document{l: &problem.List{}}
		if json.Unmarshal([]byte(cell("|Run Info|Backend|")), &d.fields) == nil {
			r.Model = d.firstText("model", "model_name")
		}
		none := strings.TrimSuffix(cell(guideLLMColumns["successful"]), ".0") == "0"
		if none {
			r.nothingCompleted()
		}
		for _, m := range toolMetrics()[ToolGuideLLM] {
			at := guideLLMColumns[m.Key]
			columns := map[string]string{"mean": at + "|Mean", "median": at + "|Median"}
			values := map[string]string{"mean": cell(columns["mean"]), "median": cell(columns["median"])}
			if strings.HasPrefix(at, "|Request Counts|") {
				m.Key = "requests." + m.Key
				columns["mean"], values["mean"] = at, cell(at)
			} else if none {
				continue
			}
			list := strings.Split(strings.Trim(cell(at+"|Percentiles"), "[] "), ",")
			for i, statistic := range map[int]string{7: "p90", 8: "p95", 9: "p99", 10: "max"} {
				if len(list) == 11 {
					columns[statistic], values[statistic] = at+"|Percentiles", list[i]
				}
			}
			r.statistics(m, statisticNames, func(name string) (string, float64, bool) {
				v, err := strconv.ParseFloat(strings.TrimSpace(values[name]), 64)
				return strings.Trim(columns[name], "|"), v, err == nil && v == v
			})
		}
		slices.SortStableFunc(r.Figures,
			func(a, b ToolFigure) int { return strings.Compare(a.Metric+a.Statistic, b.Metric+b.Statistic) })
		results = append(results, r)
	}
	return results
}
