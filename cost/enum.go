package cost

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cotenant/cotenant/sharing"
)

func enumName(names []string, i int, typ string) string {
	if i >= len(names) {
		return fmt.Sprintf("%s(%d)", typ, i)
	}
	return names[i]
}

func enumText(names []string, i int, what string) ([]byte, error) {
	if i >= len(names) {
		return nil, badInput("%d is no %s", i, what)
	}
	return []byte(names[i]), nil
}

func enumParse(names []string, b []byte, what string) (int, error) {
	if i := slices.Index(names, string(b)); i >= 0 {
		return i, nil
	}
	err := &sharing.UnknownNameError{Kind: what, Name: string(b), Known: names}
	return 0, &inputError{text: strings.TrimPrefix(err.Error(), "sharing: "), err: err}
}
