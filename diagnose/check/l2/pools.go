package l2

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/internal/place"
)

// isOf says whether the node is of the pool, by its label or by its name.
func isOf(n *corev1.Node, p *v1alpha1.Pool) bool {
	of, _ := place.PoolOfNode([]*v1alpha1.Pool{p}, n)
	return of != nil || n.Labels[v1alpha1.LabelPool] == p.Name
}
