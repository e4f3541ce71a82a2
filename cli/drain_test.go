package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/capacity/maintenance"
	"github.com/berth-dev/berth/diagnose/submit"
)

func TestParseWindow(t *testing.T) {
	zone := time.FixedZone("CET", 3600)
	now := time.Date(2026, 11, 18, 14, 30, 0, 0, zone)
	day := func(d, h, m int) time.Time { return time.Date(2026, 11, d, h, m, 0, 0, zone) }
	for text, want := range map[string]maintenance.Window{
		"22:00-04:00": {From: day(18, 22, 0), To: day(19, 4, 0)},
		"09:00-12:00": {From: day(19, 9, 0), To: day(19, 12, 0)},
		"14:00-15:00": {From: now, To: day(18, 15, 0)}, // it has begun
		"15:00-15:00": {From: now, To: day(18, 15, 0)}, // a day long
		"6h":          {From: now, To: now.Add(6 * time.Hour)},
		"0s":          {From: now, To: now},
		"2026-11-20T22:00:00+01:00/2026-11-21T04:00:00+01:00": {From: day(20, 22, 0), To: day(21, 4, 0)},
		"2026-11-01T00:00:00+01:00/2026-11-21T04:00:00+01:00": {From: now, To: day(21, 4, 0)},
	} {
		got, err := parseWindow(text, now)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"", "now", "22:00", "22:00-", "25:00-26:00", "-6h", "1000h", "2026-11-20T22:00:00Z/2026-11-19T22:00:00Z", "2026-11-01T00:00:00Z/2026-11-02T00:00:00Z", "2026-11-20/2026-11-21"} {
		if got, err := parseWindow(text, now); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// TestDrainTextAssumes says of which work nothing is known, and what is taken for it.
func TestDrainTextAssumes(t *testing.T) {
	d := &submit.Drain{Plan: maintenance.Plan{Best: true, NoEnd: []string{"t/a", "t/b", "t/c", "t/d", "t/e"}, NoCheckpoint: []string{"t/a"}, Learned: []string{"t/f"}}}
	got := drainText(d, 80)
	for _, want := range []string{
		"No end is known of t/a, t/b, t/c and 2 others (berth.dev/expected-run): taken to run beyond the window.\n",
		"No checkpoints are known of t/a (berth.dev/checkpoint): taken to lose all since the start.\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if got := drainText(&submit.Drain{Plan: maintenance.Plan{Best: true}}, 80); strings.Contains(got, "known of") {
		t.Errorf("nothing is assumed, and said: %q", got)
	}
}

// FuzzParseWindow: whatever is given, a window is not over, not backwards and not endless.
func FuzzParseWindow(f *testing.F) {
	for _, text := range []string{"22:00-04:00", "6h", "2026-11-20T22:00:00Z/2026-11-21T04:00:00Z", "9999999h", "00:00-00:00"} {
		f.Add(text, int64(1_790_000_000))
	}
	f.Fuzz(func(t *testing.T, text string, at int64) {
		now := time.Unix(at%(1<<35), 0).UTC()
		w, err := parseWindow(text, now)
		if err == nil && (w.From.Before(now) || w.To.Before(w.From) || w.To.Sub(w.From) > maxWindow) {
			t.Errorf("%q at %v is %v", text, now, w)
		}
	})
}

func TestProvisionerFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--expander priority", "nobody chooses node groups"},
		{"--provision karpenter --expander priority", "nobody chooses node groups"},
		{"--provision autoscaler --expander price", "choose least-waste"},
		{"--provision autoscaler --expander random,priority", "would never be used"},
		{"--provision autoscaler --node-repair", "nobody repairs nodes"},
	} {
		code, _, stderr := run(t, append([]string{"up", "--detach"}, strings.Fields(c.args)...)...)
		if code == 0 || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: %d %s", c.args, code, stderr)
		}
	}
}
