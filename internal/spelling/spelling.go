// Package spelling compares words that people write: how far two words are apart, and which of several names was probably
// meant. It knows nothing of what the words name. Diagnosis, evidence bundles and the fleet file ask it.
package spelling

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Closest returns the name that is so like the wrong one that it may have been meant: no other name that differs by a word. Where there is none,
// it returns the one that comes nearest, and false.
func Closest(wrong string, have []string) (string, bool) {
	if len(have) == 0 {
		return "", false
	}
	all := measure(wrong, have)
	like := slices.DeleteFunc(slices.Clone(all), func(m measured) bool {
		near := m.far <= max(2, len(wrong)/4) || strings.Contains(m.name, wrong) || strings.Contains(wrong, m.name)
		return !near || otherName(wrong, m.name)
	})
	if len(like) > 0 {
		return slices.MinFunc(like, byDistance).name, true
	}
	return slices.MinFunc(all, byDistance).name, false
}

// Misspelt reports whether one is probably the other, misspelt.
func Misspelt(a, b string) bool {
	return a != b && Distance(a, b) <= max(1, min(len(a), len(b))/4) && !otherName(a, b)
}

// ByLikeness returns the names, the one most like the word first, whatever their case.
func ByLikeness(word string, names []string) []string {
	all := measure(word, names)
	slices.SortFunc(all, byDistance)
	out := make([]string, len(all))
	for i := range all {
		out[i] = all[i].name
	}
	return out
}

// measured is a name, and how far it is from a word.
type measured struct {
	name string
	far  int
}

func measure(word string, names []string) []measured {
	out := make([]measured, len(names))
	word = strings.ToLower(word)
	for i, name := range names {
		out[i] = measured{name, Distance(word, strings.ToLower(name))}
	}
	return out
}

func byDistance(a, b measured) int {
	return cmp.Or(cmp.Compare(a.far, b.far), strings.Compare(a.name, b.name))
}

// letters are the words and the numbers that a name is made of.
var letters = regexp.MustCompile(`[a-z]+|\d+`)

// parts are what stands between the dashes, dots and slashes of a name, and words what of it is no number.
var (
	parts = regexp.MustCompile(`[a-z0-9]+`)
	words = regexp.MustCompile(`[a-z]+`)
)

// Typo reports whether one is the other with a letter or two wrong. Numbers and names of one or two letters are what
// people tell things apart by: with another one it is another thing.
func Typo(a, b string) bool {
	if d := Distance(a, b); d > 2 || d*4 > max(len(a), len(b)) {
		return false
	}
	x, y := letters.FindAllString(a, -1), letters.FindAllString(b, -1)
	if len(x) != len(y) { // a dash more or less, or a letter more before a number
		return strings.Join(x, "") == strings.Join(y, "")
	}
	for i := range x {
		_, err := strconv.Atoi(x[i])
		if x[i] != y[i] && (err == nil || len(x[i]) <= 2 || len(y[i]) <= 2) {
			return false
		}
	}
	return true
}

// otherName reports whether two names of as many parts or words, whatever their case, differ by a word that is no slip for the other's, because
// less than half of its letters are the same: gpu.amd.com is not gpu.nvidia.com misspelt, nor h100 a100, however much else they have in common.
func otherName(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	for _, pieces := range []*regexp.Regexp{parts, words} {
		x, y := pieces.FindAllString(a, -1), pieces.FindAllString(b, -1)
		if len(x) != len(y) {
			continue
		}
		for i := range x {
			if x[i] != y[i] && 2*Distance(x[i], y[i]) > max(len(x[i]), len(y[i])) {
				return true
			}
		}
	}
	return false
}

// Within returns the distance of two words that are at most so far apart, and false for others. It is cheaper than
// Distance for words whose lengths differ by more.
func Within(a, b string, most int) (int, bool) {
	if x, y := utf8.RuneCountInString(a), utf8.RuneCountInString(b); max(x-y, y-x) > most {
		return 0, false
	}
	d := Distance(a, b)
	return d, d <= most
}

// Distance returns how many letters have to be changed, added, left out or swapped with their neighbour to make one word
// of the other (optimal string alignment). It costs the product of the lengths, as far as names have letters: of what is
// longer it counts by how many letters the rests differ in length, and one if they differ in nothing else.
func Distance(a, b string) int {
	x, restOfA := beginning(a)
	y, restOfB := beginning(b)
	return aligned(x, y) + apart(restOfA, restOfB)
}

// mostLetters is more than names of objects may have.
const mostLetters = 256

// beginning is the letters that are compared one by one, and what is after them.
func beginning(s string) (letters []rune, rest string) {
	n := 0
	for i := range s {
		if n++; n > mostLetters {
			return []rune(s[:i]), s[i:]
		}
	}
	return []rune(s), ""
}

func apart(a, b string) int {
	if a == b {
		return 0
	}
	return max(1, utf8.RuneCountInString(a)-utf8.RuneCountInString(b), utf8.RuneCountInString(b)-utf8.RuneCountInString(a))
}

// aligned is the distance of two words that are no longer than names.
func aligned(x, y []rune) int {
	n := len(y) + 1
	var space [3 * 64]int // names are no longer, so that nothing is allocated
	rows := space[:]
	if 3*n > len(rows) {
		rows = make([]int, 3*n)
	}
	before, last, now := rows[:n], rows[n:2*n], rows[2*n:3*n]
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(x); i++ {
		now[0] = i
		for j := 1; j <= len(y); j++ {
			wrong := 1
			if x[i-1] == y[j-1] {
				wrong = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+wrong)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(y)]
}
