package answer

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/fake"
)

func slice(addressType string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": addressType}}
	o.SetNamespace(ServiceNamespace)
	o.SetName(ClusterService)
	return o
}

// Questions go to the leader: it writes its own address, and only where the Service is the cluster's.
func TestTheLeaderSaysWhereItIs(t *testing.T) {
	ctx, o := context.Background(), objects(apiService(ClusterService, 443), slice("IPv4"))
	s, err := New(fake.NewClientset(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	endpoints := func() []any {
		have, err := o.Resource(endpointSlices).Namespace(ServiceNamespace).Get(ctx, ClusterService, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		list, _, _ := unstructured.NestedSlice(have.Object, "endpoints")
		return list
	}
	if err := s.announce(ctx, o, 10259); err != nil || endpoints() != nil {
		t.Errorf("a process outside of the cluster: %v, %v", err, endpoints())
	}
	s.Address("10.1.2.3")
	if err := s.announce(ctx, o, 10259); err != nil {
		t.Fatal(err)
	}
	want := []any{map[string]any{"addresses": []any{"10.1.2.3"}, "conditions": map[string]any{"ready": true}}}
	if diff := cmp.Diff(want, endpoints()); diff != "" {
		t.Error(diff)
	}
	o.ClearActions()
	if err := s.announce(ctx, o, 10259); err != nil || len(o.Actions()) != 2 {
		t.Errorf("what is right is written again: %v, %v", err, o.Actions())
	}
	s.Address("fd00::1")
	if err := s.announce(ctx, o, 10259); err == nil || !strings.Contains(err.Error(), "addresses of type IPv4") {
		t.Errorf("an address of another family: %v", err)
	}
}
