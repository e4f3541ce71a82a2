package stream

import (
	"crypto/x509"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The API server has two names here, and neither gets what the other may.
func TestAggregatedAPIIsApart(t *testing.T) {
	s := serve(t, &fake{})
	proxy := pick(s.ca.issue(t, "front-proxy", x509.ExtKeyUsageClientAuth))
	got := []string{
		knock(s, proxy, "/apis/metrics.k8s.io/v1beta1/nodes"), knock(s, proxy, "/exec/ns/pod/c?command=id&output=1"), knock(s, proxy, "/metrics/resource"),
		knock(s, pick(s.ca.issue(t, clientName, x509.ExtKeyUsageClientAuth)), "/apis/metrics.k8s.io/v1beta1/nodes")[:3],
		knock(s, nil, "/apis/metrics.k8s.io/v1beta1/nodes"),
	}
	want := []string{"200 aggregated /apis/metrics.k8s.io/v1beta1/nodes", "200 aggregated /exec/ns/pod/c", "200 aggregated /metrics/resource", "404", "401 a client certificate is required"}
	for i := range got {
		got[i] = strings.TrimSpace(got[i])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
