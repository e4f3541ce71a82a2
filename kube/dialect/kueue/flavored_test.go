package kueue

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/dialecttest"
)

// several is a world that lists ClusterQueues.
type several struct {
	world
	queues []*dialect.Object
}

func (s several) Objects(kind, _ string) []*dialect.Object {
	if kind == ClusterQueues {
		return s.queues
	}
	return nil
}

// Each flavor has its own amounts, beside the sums; the cohort has what its queues have of each, and what is lent is a limit of the
// others. A queue with one flavor counts it apart where others of the cohort have more.
func TestQuotasByFlavor(t *testing.T) {
	w := several{world: world{}}
	for name, labels := range map[string]string{"on-demand": "{type: on-demand}", "spot": "{type: spot}", "burst": "{type: spot}", "any": "{}"} {
		o := ReadResourceFlavor(dialecttest.Object(t, "{spec: {nodeLabels: "+labels+"}}"))
		w.world[ResourceFlavors+"/"+name] = &o
	}
	cluster := func(name, spec string) *unstructured.Unstructured {
		return dialecttest.Object(t, "{metadata: {name: "+name+"}, spec: {namespaceSelector: {}, cohortName: all, "+spec+"}}")
	}
	a := cluster("a", "flavorFungibility: {whenCanBorrow: TryNextFlavor}, resourceGroups: [{coveredResources: [nvidia.com/gpu, cpu], flavors: [{name: on-demand, resources: [{name: nvidia.com/gpu, nominalQuota: 8, lendingLimit: 2}]}, {name: spot, resources: [{name: nvidia.com/gpu, nominalQuota: 4, borrowingLimit: 1}]}, {name: burst, resources: [{name: nvidia.com/gpu, nominalQuota: 1, borrowingLimit: 0}]}]}]")
	b := cluster("b", "resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: on-demand, resources: [{name: nvidia.com/gpu, nominalQuota: 3}]}]}]")
	for range 2 { // the second reading sees the first
		var next []*dialect.Object
		for _, o := range []*unstructured.Unstructured{a, b} {
			got := ReadClusterQueue(o, w)
			got.Name = o.GetName()
			next = append(next, &got)
		}
		w.queues = next
	}
	show := func(q *dialect.FlavorQuotas) string {
		out, err := yaml.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	const wantA = `Amounts:
- Flavor: on-demand
  Limit: null
  Quota: "8"
  Resource: nvidia.com/gpu
- Flavor: spot
  Limit: "6"
  Quota: "5"
  Resource: nvidia.com/gpu
Groups:
- Flavors:
  - Labels:
      type: on-demand
    Name: on-demand
  - Labels:
      type: spot
    Name: spot
  Resources:
  - cpu
  - nvidia.com/gpu
QuotaFirst: true
`
	const wantB = `Amounts:
- Flavor: on-demand
  Limit: "5"
  Quota: "3"
  Resource: nvidia.com/gpu
Groups:
- Flavors:
  - Labels:
      type: on-demand
    Name: on-demand
  Resources:
  - nvidia.com/gpu
QuotaFirst: false
`
	const wantAll = `Amounts:
- Flavor: on-demand
  Limit: "11"
  Quota: "11"
  Resource: nvidia.com/gpu
- Flavor: spot
  Limit: "5"
  Quota: "5"
  Resource: nvidia.com/gpu
Groups: null
QuotaFirst: false
`
	first, second := w.queues[0], w.queues[1]
	if diff := cmp.Diff(wantA, show(first.Flavors)) + cmp.Diff(wantB, show(second.Flavors)) + cmp.Diff(wantAll, show(first.ImpliesFlavors)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"spec.resourceGroups.flavors.burst (the node labels of spot: its quota is added to that)"}, first.Unread); diff != "" {
		t.Error(diff)
	}
}
