package kubelet

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/fleet/shell"
)

// rootCA is the ConfigMap with the cluster's certificate that every namespace has a copy of.
const rootCA = "kube-root-ca.crt"

// isAccess recognises the volume that the API server adds to every pod for its service account.
func isAccess(p *corev1.ProjectedVolumeSource) bool {
	token := false
	for i := range p.Sources {
		src := &p.Sources[i]
		switch {
		case src.ServiceAccountToken != nil:
			token = true
		case src.ConfigMap != nil && src.ConfigMap.Name == rootCA, src.DownwardAPI != nil:
		default:
			return false
		}
	}
	return token
}

// access is that volume without the token: certificate and namespace, the same for all pods of a
// namespace. The certificate is the cluster's, so it is read once for all namespaces; a pod that starts
// before it is published goes without.
func (s *sources) access(ctx context.Context, namespace string) *shell.Volume {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	if v := s.shared.volumes[namespace]; v != nil {
		return v
	}
	if s.shared.ca == "" {
		if m, err := s.configMap(ctx, namespace, rootCA, true); err == nil && m != nil {
			s.shared.ca = m.Data["ca.crt"]
		}
	}
	v := shell.NewVolume(0)
	_ = v.WriteFile("/namespace", []byte(namespace), 0o644) // an unlimited empty volume takes it
	if s.shared.ca == "" {
		return v
	}
	_ = v.WriteFile("/ca.crt", []byte(s.shared.ca), 0o644)
	s.shared.volumes[namespace] = v
	return v
}

// shared is what pods have in common.
type shared struct {
	mu      sync.Mutex
	ca      string                   // "": not read yet
	volumes map[string]*shell.Volume // complete access volumes by namespace
}
