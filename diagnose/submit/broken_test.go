package submit

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// A node with a GPU that DCGM shows to be broken is closed to pods of Berth, and open to those of schedulers that do not look at it.
func TestBrokenGPUsKeepBerthsPodsAlone(t *testing.T) {
	for scheduler, want := range map[string]Verdict{"berth": Never, "default-scheduler": Starts} {
		f := clusterOf(1, 0)
		f.Nodes[0].Annotations = map[string]string{v1alpha1.KeyUnhealthyGPUs: `[{"uuid":"GPU-1","why":"Xid 79"}]`}
		var object map[string]any
		if err := json.Unmarshal([]byte(shaped("Pod", "train", container(`{"limits": {"nvidia.com/gpu": "2"}}`, "", `"schedulerName": "`+scheduler+`",`), "")), &object); err != nil {
			t.Fatal(err)
		}
		r := Check(World{Facts: f}, "team", []Item{{File: "a.yaml", Object: object}})
		told := strings.Contains(strings.Join(r.Assumes, "\n"), "broken")
		if got := r.Workloads[0].Verdict; got != want || told != (want == Starts) {
			t.Errorf("of scheduler %s: %s, want %s; assumes %q", scheduler, got, want, r.Assumes)
		}
		if f.Nodes[0].Annotations[v1alpha1.KeyUnhealthyGPUs] == "" {
			t.Error("the facts were written to")
		}
	}
}
