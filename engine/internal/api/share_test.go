package api

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func FuzzShare(f *testing.F) {
	f.Add("net.example.com/n/eth-0?bandwidth=10&slots=2#x")
	f.Add("d?")
	f.Add("d?=1&#")
	f.Fuzz(func(t *testing.T, text string) {
		s, ok := ParseShare(text)
		if !ok {
			return
		}
		if again, ok := ParseShare(s.String()); !ok || cmp.Diff(s, again) != "" {
			t.Errorf("%q reads as %+v, and written again as %+v", text, s, again)
		}
	})
}
