// Package wording has the words that sentences of a diagnosis are made of: counts with their nouns, lists that name a few and
// count the rest, durations. It knows nothing of clusters.
package wording

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// FirstLine is the first line of the text.
func FirstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}

// LastLine is the last of the lines that says something.
func LastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// Shortened keeps a message to what fits into a sentence.
func Shortened(s string, most int) string {
	r := []rune(FirstLine(s))
	if len(r) <= most {
		return string(r)
	}
	return string(r[:most]) + "..."
}

// Mentions says whether the text has one of the words, in whichever case.
func Mentions(text string, words ...string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// Minutes is a duration as people say it.
func Minutes(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return d.Round(time.Second).String()
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Pods counts them in words.
func Pods(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

// Existing says how many there are.
func Existing(n int) string {
	if n == 1 {
		return "1 exists"
	}
	return fmt.Sprintf("%d exist", n)
}

// Number is a count with its noun: "1 GPU", "3 GPUs".
func Number[N int | int32 | int64](n N, noun string) string {
	return fmt.Sprintf("%d %s", n, InNumber(n, noun, noun+"s"))
}

// InNumber is the word that goes with a count: "1 has", "3 have".
func InNumber[N int | int32 | int64](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Few names some of them: "a, b and 3 more".
func Few(names []string) string {
	const most = 3
	if len(names) > most+1 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// NodesInWords is a number of nodes.
func NodesInWords(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// OneLine is a text without line breaks.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// RoundAge is a time span as people say it.
func RoundAge(d time.Duration) string {
	if d >= time.Minute {
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return d.Round(time.Second).String()
}

// AtMost joins the first words, and says how many more there are.
func AtMost(n int, words []string) string {
	if len(words) <= n {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:n], ", "), len(words)-n)
}
