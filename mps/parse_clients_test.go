package mps

import (
	"strings"
	"testing"
)

// TestEmptyAttributes: a column that a release adds may be blank, in any row, before
// or after the command.
func TestEmptyAttributes(t *testing.T) {
	for name, table := range map[string]string{
		"last": `PID       ID        SERVER         DEVICE                    NAMESPACE      COMMAND             ATTRIBUTES
711       2         673            GPU-403fa439-6cf5-29e7    4026531836     python3 serve.py
712       3         673            GPU-403fa439-6cf5-29e7    4026531836     python3 train.py    static
`,
		"before the command": `PID       ID        SERVER         DEVICE                    NAMESPACE      ATTRIBUTES    COMMAND
711       2         673            GPU-403fa439-6cf5-29e7    4026531836                   python3 serve.py
712       3         673            GPU-403fa439-6cf5-29e7    4026531836     static        python3 train.py
`,
		"not in columns": `PID ID SERVER DEVICE NAMESPACE ATTRIBUTES COMMAND
711 2 673 GPU-403fa439-6cf5-29e7 4026531836 python3_serve.py
712 3 673 GPU-403fa439-6cf5-29e7 4026531836 static python3_train.py
`,
	} {
		got, err := parseProcesses(table)
		if err != nil || len(got) != 2 {
			t.Errorf("%s: %+v, %v", name, got, err)
			continue
		}
		for i, want := range []struct{ attributes, command string }{{"", "python3 serve.py"}, {"static", "python3 train.py"}} {
			if p := got[i]; p.Attributes != want.attributes || strings.ReplaceAll(p.Command, "_", " ") != want.command || p.PID != 711+i {
				t.Errorf("%s: %+v, want %+v", name, p, want)
			}
		}
	}
}
