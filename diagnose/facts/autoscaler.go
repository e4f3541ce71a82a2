package facts

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/kube/dialect/clusterautoscaler"
)

// AutoscalerStatus are the ConfigMaps in which a cluster-autoscaler says what it does: one, or none.
func (f *Facts) AutoscalerStatus() (out []*corev1.ConfigMap) {
	for _, m := range f.ConfigMaps {
		if m.Name == clusterautoscaler.StatusName {
			out = append(out, m)
		}
	}
	return out
}
