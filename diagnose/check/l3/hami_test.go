package l3

import (
	"strings"
	"testing"
)

func TestHamiWords(t *testing.T) {
	for text, want := range map[string]string{
		"no available node, 2 nodes do not meet":                 "",
		"3 nodes CardInsufficientMemory(a,b,c)":                  "CardInsufficientMemory",
		"node a: 1/2 CardInsufficientCore, 1/2 CardTypeMismatch": "CardTypeMismatch CardInsufficientCore",
	} {
		var got []string
		for _, r := range hamiWords(text) {
			got = append(got, r.word)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
