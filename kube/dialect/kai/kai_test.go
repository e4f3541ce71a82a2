package kai

import (
	"strings"
	"testing"
	"time"
)

func FuzzKaiTime(f *testing.F) {
	f.Add("Workload may not trigger evictions before 2026-11-15T12:20:00Z.")
	f.Add("(2026-11-15T12:20:00+02:00), then")
	f.Fuzz(func(t *testing.T, text string) {
		if at, ok := ParseTime(text); ok && at.IsZero() && !strings.Contains(text, "0001-01-01") {
			t.Errorf("%q gives no time", text)
		}
	})
}

func TestKaiTime(t *testing.T) {
	want := time.Date(2026, 11, 15, 12, 20, 0, 0, time.UTC)
	if got, ok := ParseTime("Workload may not trigger evictions before 2026-11-15T12:20:00Z."); !ok || !got.Equal(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, ok := ParseTime("not before noon"); ok {
		t.Error("noon is no time that can be read")
	}
}
