package record

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine"
)

// What an older Berth remembered under the names of then is read under those of now.
func TestOlderNamesAreRead(t *testing.T) {
	log, err := Open(segmentOf(t,
		`{"segment":{"format":1,"values":5,"berth":"v0","start":"2026-11-15T12:00:00Z","because":"start","config":{}}}`,
		`{"live":{"queue":{"name":"q","version":1}}}`,
		`{"live":{"spending":{"queue":"q","version":2,"at":"2026-11-15T11:00:00Z","decayed":60,"users":[{"user":"ann","decayed":60}]}}}`,
		`{"change":{"lesson":{"like":"train","version":3,"count":9,"short":1,"median":2,"long":3}}}`,
		`{"change":{"lapse":{"gang":"g","version":4,"since":"2026-11-15T11:30:00Z"}}}`,
		`{"change":{"lapse":{"gang":"h","version":5,"since":"2026-11-15T11:30:00Z"}}}`,
		`{"change":{"gone":{"kind":"lapse","key":"h","version":6}}}`,
		goodCycle))
	if err != nil {
		t.Fatal(err)
	}
	cycle, err := log.At(noon)
	if err != nil {
		t.Fatal(err)
	}
	got := cycle.State.Dump()
	hour := time.Date(2026, 11, 15, 11, 0, 0, 0, time.UTC)
	want := engine.Snapshot{
		Usages:           []engine.QueueUsage{{Queue: "q", Version: 2, At: hour, Decayed: 60, Users: []engine.UserUsage{{User: "ann", Decayed: 60}}}},
		RunTimeEstimates: []engine.RunTimeEstimate{{Like: "train", Version: 3, Count: 9, Short: 1, Median: 2, Long: 3}},
		Degradations:     []engine.Degradation{{Gang: "g", Version: 4, Since: hour.Add(30 * time.Minute)}},
	}
	if diff := cmp.Diff(want, engine.Snapshot{Usages: got.Usages, RunTimeEstimates: got.RunTimeEstimates, Degradations: got.Degradations}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
