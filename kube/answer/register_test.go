package answer

import (
	"context"
	"encoding/base64"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func objects(list ...runtime.Object) *dynamicfake.FakeDynamicClient {
	return dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{apiServices: "APIServiceList"}, list...)
}

// registered returns the service that the API server is told of, and for how many bytes of certificate.
func registered(t *testing.T, o dynamic.Interface) (service map[string]any, bundle string) {
	t.Helper()
	have, err := o.Resource(apiServices).Get(context.Background(), APIServiceName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	service, _, _ = unstructured.NestedMap(have.Object, "spec", "service")
	bundle, _, _ = unstructured.NestedString(have.Object, "spec", "caBundle")
	return service, bundle
}

func TestTheLeaderAnnouncesItself(t *testing.T) {
	ctx, client, o := context.Background(), fake.NewClientset(), objects()
	for range 2 { // the second time it is all there
		if err := InstallLocal(ctx, client, o, 1); err != nil {
			t.Fatal(err)
		}
	}
	service, err := client.CoreV1().Services(ServiceNamespace).Get(ctx, LocalService, metav1.GetOptions{})
	if err != nil || service.Spec.Type != corev1.ServiceTypeExternalName || service.Spec.ExternalName != "localhost" {
		t.Errorf("%v, %+v", err, service)
	}
	s, err := New(client, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.announce(ctx, o, 4711); err != nil {
		t.Fatal(err)
	}
	got, bundle := registered(t, o)
	if diff := cmp.Diff(map[string]any{"namespace": ServiceNamespace, "name": LocalService, "port": int64(4711)}, got); diff != "" {
		t.Error(diff)
	}
	if want := base64.StdEncoding.EncodeToString(s.certificates.shown.pem); bundle != want {
		t.Errorf("certificate %q, want %q", bundle, want)
	}
	o.ClearActions()
	if err := s.announce(ctx, o, 4711); err != nil || len(o.Actions()) != 1 {
		t.Errorf("what is right is written again: %v, %v", err, o.Actions())
	}
	for range 2 {
		if err := Retire(ctx, o); err != nil {
			t.Error(err)
		}
	}
}

// In a cluster the Service's port is the cluster's to choose.
func TestOnlyALocalServiceHasTheLeadersPort(t *testing.T) {
	o := objects(apiService(ClusterService, 443))
	s, err := New(fake.NewClientset(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.announce(context.Background(), o, 4711); err != nil {
		t.Fatal(err)
	}
	got, bundle := registered(t, o)
	if got["port"] != int64(443) || bundle == "" {
		t.Errorf("%v, %q", got, bundle)
	}
}

// A certificate that somebody replaced is put back, and an API service that comes late is found.
func TestAnnounceDoesNotGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := objects()
		var tries atomic.Int64
		o.PrependReactor("get", "apiservices", func(clienttesting.Action) (bool, runtime.Object, error) { tries.Add(1); return false, nil, nil })
		s, err := New(fake.NewClientset(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); s.Announce(ctx, o, 1) }()
		time.Sleep(10 * time.Minute)
		if n := tries.Load(); n < 10 || n > 30 {
			t.Errorf("%d tries in ten minutes", n)
		}
		if _, err := o.Resource(apiServices).Create(ctx, apiService(LocalService, 1), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * announceEvery)
		if _, bundle := registered(t, o); bundle == "" {
			t.Error("not announced")
		}
		cancel()
		<-ended
	})
}
