package submit

import (
	"strings"
	"testing"
)

// Pods that are to be near pods like themselves start where nodes are divided so, and where none has the label that is what they lack.
func TestNearPodsLikeItself(t *testing.T) {
	const set = "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: w, annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: KEY}}\nspec: {replicas: 1, leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {containers: [{name: c, image: registry.example/c:1}]}}}}"
	for key, want := range map[string]string{
		"rack":              "",
		"example.com/block": "no node has the label example.com/block",
	} {
		w := Check(World{Facts: clusterOf(2, 0), Bare: true}, "default", items(t, strings.ReplaceAll(set, "KEY", key))).Workloads[0]
		if (w.Verdict == Starts) != (want == "") || !strings.Contains(w.Summary, want) {
			t.Errorf("%s: %s: %s", key, w.Verdict, w.Summary)
		}
	}
}
