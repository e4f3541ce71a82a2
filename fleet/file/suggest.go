package file

import (
	"fmt"
	"strings"
)

// suggest is "; did you mean X?" for the nearest of names, or nothing where none is near:
// within a third of the word's letters, at least two of them.
func suggest(word string, names []string) string {
	word = strings.ToLower(word)
	best, nearest := 2*(max(2, len(word)/3)+1), ""
	for _, name := range names {
		d := distance(word, strings.ToLower(name))
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

// distance counts the single-byte insertions, deletions and substitutions from a to b. Long
// words are cut: nobody's typo is that long.
func distance(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
