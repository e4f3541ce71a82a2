package main

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// drawn returns one in so many of the stories, drawn anew each time, in their order. The output names those that are told. Without
// -short it returns all of them, and also where -run names some: a story that failed is told again whatever is drawn.
func drawn(stories []string, oneIn int) []string {
	if !testing.Short() || strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return stories
	}
	some := slices.Clone(stories)
	rand.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	some = some[:(len(some)+oneIn-1)/oneIn]
	slices.Sort(some)
	return some
}
