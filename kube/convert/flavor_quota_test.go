package convert_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/dialect"
)

// Amounts of flavors are in the units of their resources, and are written so again.
func TestQueueFlavors(t *testing.T) {
	limit := resource.MustParse("4")
	q := engine.Queue{Name: "q"}
	convert.QueueFlavors(&q, &dialect.FlavorQuotas{
		Groups:     []dialect.FlavorGroup{{Resources: []string{"cpu", "memory"}, Flavors: []dialect.NodeFlavor{{Name: "spot", Labels: map[string]string{"type": "spot"}}}}},
		Amounts:    []dialect.FlavorAmount{{Resource: "cpu", Flavor: "spot", Quota: resource.MustParse("2"), Limit: &limit}, {Resource: "memory", Flavor: "spot", Quota: resource.MustParse("1Gi")}},
		QuotaFirst: true,
	})
	want := engine.Queue{
		Name: "q", QuotaFirst: true,
		Quota:   engine.Resources{{Resource: "cpu#spot", Value: 2000}, {Resource: "memory#spot", Value: 1 << 30}},
		Limits:  engine.Resources{{Resource: "cpu#spot", Value: 4000}},
		Flavors: []engine.FlavorGroup{{Resources: []string{"cpu", "memory"}, Flavors: []engine.Flavor{{Name: "spot", Labels: map[string]string{"type": "spot"}}}}},
	}
	if diff := cmp.Diff(want, q); diff != "" {
		t.Error(diff)
	}
	for _, a := range q.Quota {
		got := convert.QuantityOf(a.Resource, a)
		if want := map[string]string{"cpu#spot": "2", "memory#spot": "1Gi"}[a.Resource]; got.String() != want {
			t.Errorf("%s is written as %s, not %s", a.Resource, got.String(), want)
		}
	}
}
