package clusterautoscaler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestDecodeAutoscaler(t *testing.T) {
	want := []*Group{{Name: "a/gke-main-h100-grp", Ready: 2, Registered: 3, LongUnregistered: 1, Target: 4, Min: 1, Max: 9, ScaleUp: "Backoff"}}
	old := `Cluster-autoscaler status at 2026-11-15 12:00:00 +0000 UTC:
Cluster-wide:
  Health:      Healthy (ready=9 unready=0 notStarted=0 longNotStarted=0 registered=9 longUnregistered=0)
  ScaleUp:     NoActivity (ready=9 registered=9)

NodeGroups:
  Name:        a/gke-main-h100-grp
  Health:      Healthy (ready=2 unready=1 (resourceUnready=1) notStarted=0 registered=3 longUnregistered=1 cloudProviderTarget=4 (minSize=1, maxSize=9))
               LastProbeTime:      2026-11-15 11:59:50 +0000 UTC m=+571.7
  ScaleUp:     Backoff (ready=2 cloudProviderTarget=4)
`
	yaml := `time: 2026-11-15 12:00:00.1 +0000 UTC
autoscalerStatus: Running
nodeGroups:
- name: a/gke-main-h100-grp
  health:
    nodeCounts: {registered: {total: 3, ready: 2, unready: {total: 1, resourceUnready: 1}}, longUnregistered: 1, unregistered: 0}
    cloudProviderTarget: 4
    minSize: 1
    maxSize: 9
  scaleUp:
    status: Backoff
    backoffInfo: {errorCode: QUOTA_EXCEEDED, errorMessage: "Quota H100 exceeded"}
`
	same := cmpopts.IgnoreUnexported(Group{})
	if diff := cmp.Diff(want, ParseStatus(old), same); diff != "" {
		t.Errorf("old words (-want +got):\n%s", diff)
	}
	want[0].ErrorCode, want[0].ErrorMessage = "QUOTA_EXCEEDED", "Quota H100 exceeded"
	if diff := cmp.Diff(want, ParseStatus(yaml), same); diff != "" {
		t.Errorf("YAML (-want +got):\n%s", diff)
	}
	for _, none := range []string{"", "Initializing", "autoscalerStatus: Initializing\n", "{{"} {
		if got := ParseStatus(none); len(got) != 0 {
			t.Errorf("decodeAutoscaler(%q) = %d groups, want none", none, len(got))
		}
	}
}

func TestDecodeAutoscalerWord(t *testing.T) {
	w, ok := ParseMessage("pod triggered scale-up: [{a/b-grp 1->3 (max: 4)} {c 0->1 (max: 2)}]")
	if !ok || len(w.Grows) != 2 || w.Grows[0] != (Growth{"a/b-grp", 1, 3}) || w.Grows[1] != (Growth{"c", 0, 1}) {
		t.Errorf("grows = %v, %v", w.Grows, ok)
	}
	w, ok = ParseMessage(`pod didn't trigger scale-up: 2 max node group size reached, 1 node(s) had untolerated taint(s), 3 exceeded quota: "q", resources: cpu, memory`)
	if !ok || w.Refused("max node group size reached") != 2 || w.Refused("untolerated taint") != 1 || w.Refused("exceeded quota") != 3 || w.Refused("in backoff") != 0 {
		t.Errorf("reasons = %v, %v", w.Reasons, ok)
	}
	if w.Unsuited() {
		t.Error("a group that is full is taken for one that does not match")
	}
	if w, ok = ParseMessage("pod didn't trigger scale-up (it wouldn't fit if a new node is added)"); !ok || len(w.Reasons) != 0 {
		t.Errorf("the words of old releases = %v, %v", w, ok)
	}
	if _, ok = ParseMessage("Successfully assigned a/b to c"); ok {
		t.Error("the scheduler's words are taken for the autoscaler's")
	}
}

func FuzzDecodeAutoscaler(f *testing.F) {
	f.Add("nodeGroups:\n- name: a\n  health: {maxSize: 3}\n")
	f.Add("NodeGroups:\n  Name: a\n  Health: Healthy (ready=1 (minSize=1, maxSize=3))\n  ScaleUp: Backoff (ready=1)\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, g := range ParseStatus(text) {
			if g.Name == "" {
				t.Errorf("%q has a group without a name", text)
			}
			g.Short()
		}
	})
}
