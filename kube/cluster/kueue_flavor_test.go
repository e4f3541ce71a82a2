package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
)

// flavored is kueueing with a ClusterQueue of three GPUs on the nodes of one rack, and of four on those of another that is tried after it.
func flavored(t *testing.T) *speaking {
	s := kueueing(t,
		kueueKind+"ResourceFlavor, metadata: {name: on-demand}, spec: {nodeLabels: {type: on-demand}}}",
		kueueKind+"ResourceFlavor, metadata: {name: spot}, spec: {nodeLabels: {type: spot}}}",
		kueueKind+"ClusterQueue, metadata: {name: both}, spec: {namespaceSelector: {}, resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: on-demand, resources: [{name: nvidia.com/gpu, nominalQuota: 3}]}, {name: spot, resources: [{name: nvidia.com/gpu, nominalQuota: 4}]}]}]}}",
		kueueKind+"LocalQueue, metadata: {name: b, namespace: default}, spec: {clusterQueue: both}}",
	)
	for name, kind := range map[string]string{"d0": "on-demand", "s0": "spot"} {
		n := node(name, "", 4)
		n.Labels["type"] = kind
		s.Set(n)
	}
	return s
}

// A Job gets the first flavor with quota left, whatever room there is, and where none has any it waits and is told of each.
func TestKueueFlavorsHaveQuota(t *testing.T) {
	s := flavored(t)
	var got []string
	for _, j := range []*batchv1.Job{queued("first", "b", 2), queued("second", "b", 2), queued("third", "b", 3)} {
		s.Set(j)
		for _, start := range s.starts(t) {
			e := s.Entry(&start)
			if e == nil || e.Flavor == nil {
				t.Fatalf("%s: entry %+v", j.Name, e)
			}
			got = append(got, e.Name+" "+e.Flavor.Labels["type"])
			s.Entered(&start)
		}
	}
	if diff := cmp.Diff([]string{"first on-demand", "second spot"}, got); diff != "" {
		t.Error(diff)
	}
	waits := s.state.Plan(s.now).Waiting
	if len(waits) != 1 {
		t.Fatalf("waiting %+v", waits)
	}
	var told []string
	for _, g := range waits[0].Gates {
		told = append(told, g.Sentence(nil))
	}
	want := []string{"needs 3 nvidia.com/gpu in flavor on-demand of queue both, which uses 2 of 3", "needs 3 nvidia.com/gpu in flavor spot of queue both, which uses 2 of 4"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
	use := map[string]string{}
	for _, q := range s.ForeignQueues() {
		for name, list := range q.State.ByFlavor {
			amount := list["nvidia.com/gpu"]
			use[q.Queue+" "+name] = amount.String()
		}
	}
	if diff := cmp.Diff(map[string]string{"both on-demand": "2", "both spot": "2"}, use); diff != "" {
		t.Error(diff)
	}
}
