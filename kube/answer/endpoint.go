package answer

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// answerHere has questions to ClusterService come to this process, which leads. Readiness could not decide that: those
// that stand by are ready too, so that a rolling update waits for them, and a probe would find a new leader only seconds
// later. A process without an address of its own leaves the slice alone.
func (s *Server) answerHere(ctx context.Context, objects dynamic.Interface, port int) error {
	address, err := netip.ParseAddr(s.address)
	if err != nil {
		return nil //nolint:nilerr // it does not run in the cluster, or does not know where
	}
	slices := objects.Resource(endpointSlices).Namespace(ServiceNamespace)
	have, err := slices.Get(ctx, ClusterService, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read endpoint slice %s: %w", ClusterService, err)
	}
	if t, _, _ := unstructured.NestedString(have.Object, "addressType"); (t == "IPv6") != address.Is6() {
		return fmt.Errorf("endpoint slice %s has addresses of type %s, and this process has %s", ClusterService, t, address)
	}
	endpoints := []any{map[string]any{"addresses": []any{address.String()}, "conditions": map[string]any{"ready": true}}}
	ports := []any{map[string]any{"name": "https", "protocol": "TCP", "port": int64(port)}}
	if reflect.DeepEqual(have.Object["endpoints"], endpoints) && reflect.DeepEqual(have.Object["ports"], ports) {
		return nil
	}
	have.Object["endpoints"], have.Object["ports"] = endpoints, ports
	if _, err := slices.Update(ctx, have, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("write endpoint slice %s: %w", ClusterService, err)
	}
	return nil
}
