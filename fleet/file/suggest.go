package file

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/internal/spelling"
)

// suggest is "; did you mean X?" for the nearest of names, or nothing where none is near:
// within a third of the word's letters, at least two of them.
func suggest(word string, names []string) string {
	word = strings.ToLower(word)
	best, nearest := 2*(max(2, len(word)/3)+1), ""
	for _, name := range names {
		d := spelling.Distance(word, strings.ToLower(name))
		if d >= len(word) {
			continue // nothing in common
		}
		if score := 2*d - sameStart(word, name); score < best {
			best, nearest = score, name
		}
	}
	if nearest == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", nearest)
}

// sameStart breaks a tie between names: gpu is nearer to gpus than to cpu.
func sameStart(word, name string) int {
	if strings.HasPrefix(strings.ToLower(name), word[:1]) {
		return 1
	}
	return 0
}
