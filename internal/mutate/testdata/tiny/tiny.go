// Package tiny has a rule of every kind that mutate can switch off.
package tiny

import "strings"

type tally struct {
	words []string
	total int
}

func (t *tally) add(word string) bool {
	//mutate: gate-empty
	if word == "" {
		return false
	}
	switch {
	//mutate: gate-long
	case len(word) > 8:
		return false
	}
	//mutate: filter-case -> true, word
	ok, clean := normal(word)
	//mutate: filter-ok
	if !ok {
		return false
	}
	t.words = append(t.words, clean)
	//mutate: index-total
	t.total++
	return true
}

// normal reports whether the word has no space, and the word in lower case.
func normal(word string) (bool, string) {
	//mutate: filter-space -> true, strings.ToLower(word)
	//mutate: filter-lower -> !strings.Contains(word, " "), word
	return !strings.Contains(word, " "), strings.ToLower(word)
}

// try adds words and takes all back.
func (t *tally) try(words ...string) {
	before := *t
	//mutate: rollback
	defer func() { *t = before }()
	for _, w := range words {
		t.add(w)
	}
}

func last(words []string) int {
	n := 0
	for n < len(words) {
		//mutate: endless
		n++
	}
	return n - 1
}

func (t *tally) String() string {
	//mutate: unnoticed -> "nothing"
	return strings.Join(t.words, " ")
}
