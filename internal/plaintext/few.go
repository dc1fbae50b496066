package plaintext

import (
	"fmt"
	"strings"
)

// Count writes a number with its noun, in the plural where it wants it.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Some lists the first of names, at most most, and counts the rest of all n.
func Some(names []string, most, n int) string {
	text := strings.Join(names[:min(most, len(names))], ", ")
	if more := n - min(most, len(names)); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
