package diagnose_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRolloutIsPlayedToItsEnd holds that nodes for all new pods of a rollout are a fix only where the quota lets all of them be made
// beside the old ones. Three pods of one GPU are replaced by three of two: 3+2 are counted when the first waits, and 7 when the last
// is made, although 6 are enough in the end.
func TestRolloutIsPlayedToItsEnd(t *testing.T) {
	for _, tc := range []struct {
		hard  string
		works bool
	}{{"6", false}, {"7", true}, {"", true}} {
		c := loadCase(t, "cluster-full/rollout-of-larger-pods.yaml", fixedSeed())
		if tc.hard != "" {
			list := func(n string) corev1.ResourceList {
				return corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse(n)}
			}
			c.facts.ResourceQuotas = append(c.facts.ResourceQuotas, &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Name: "gpus", Namespace: c.Namespace, UID: "quota"},
				Spec:       corev1.ResourceQuotaSpec{Hard: list(tc.hard)},
				Status:     corev1.ResourceQuotaStatus{Hard: list(tc.hard), Used: list("5")},
			})
		}
		got := c.diagnose(t)
		added := ""
		for _, f := range got.Fixes {
			if strings.HasPrefix(f.Edit, "add ") {
				added = f.Edit
			}
		}
		if (added != "") != tc.works {
			t.Errorf("quota %q: fix %q, works %v; all fixes %+v", tc.hard, added, tc.works, got.Fixes)
		}
	}
}
