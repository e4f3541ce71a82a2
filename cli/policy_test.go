package cli

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/engine"
)

// What is given reaches the engine, and the process that --detach starts.
func TestPolicyFlags(t *testing.T) {
	for line, want := range map[string]engine.Config{
		"": {Policy: engine.Default, Heads: 4, Overtake: time.Hour, Packing: engine.Priced},
		"--policy timeshare --backfill-heads all --overtake-for 30m --half-life 168h --min-run-time 10m --gpu-rate H100=2,A100=1 --gpu-rate B200=4 --moves off --packing fgd": {
			Policy: engine.TimeShare, Heads: -1, Overtake: 30 * time.Minute, HalfLife: 168 * time.Hour, MinRun: 10 * time.Minute,
			Rates: []engine.Rate{{Model: "H100", Units: 2}, {Model: "A100", Units: 1}, {Model: "B200", Units: 4}}, Moves: engine.Moves{Off: true}, Packing: engine.LeastF,
		},
		"--policy strict --backfill-heads 16 --overtake-for 0 --moves 3600 --packing loose": {Policy: engine.Strict, Heads: 16, Overtake: -1, Moves: engine.Moves{Background: 3600}, Packing: engine.Loose},
	} {
		read := func(args []string) (p policyFlags) {
			cmd := &cobra.Command{}
			p.flags(cmd)
			if err := cmd.ParseFlags(args); err != nil {
				t.Fatal(err)
			}
			return p
		}
		given := read(strings.Fields(line))
		for _, p := range []policyFlags{given, read(given.args())} {
			got, err := p.config(engine.Config{})
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%s: %v %s", line, err, diff)
			}
		}
		if line == "" && len(given.args()) > 0 {
			t.Errorf("passes on %q", given.args())
		}
	}
}

// What completes is what is taken.
func TestPolicyCompletion(t *testing.T) {
	for flag, want := range map[string][]string{"policy": {"default", "timeshare", "fifo", "strict"}, "moves": {"on", "off"}, "packing": {"priced", "tight", "loose", "fgd"}, "backfill-heads": {"all"}} {
		cmd := newCmdScheduler(Streams{})
		complete, ok := cmd.GetFlagCompletionFunc(flag)
		if !ok {
			t.Fatalf("--%s does not complete", flag)
		}
		if got, _ := complete(cmd, nil, ""); !slices.Equal(want, got) {
			t.Errorf("--%s: %q", flag, got)
		}
	}
}
