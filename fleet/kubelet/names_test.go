package kubelet

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names are those of Services and of ready pods of headless ones, from any namespace; everything else does not exist.
func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		no, host, late := false, "worker-0", "worker-1"
		w := newWorld(t,
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "api"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.7.7", ClusterIPs: []string{"10.96.7.7"}}},
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "workers"}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone}},
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "api"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.8.8", ClusterIPs: []string{"10.96.8.8"}}},
			&discoveryv1.EndpointSlice{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "workers-x", Labels: map[string]string{discoveryv1.LabelServiceName: "workers"}},
				Endpoints: []discoveryv1.Endpoint{
					{Addresses: []string{"10.244.1.9"}, Hostname: &host},
					{Addresses: []string{"10.244.1.10"}, Hostname: &late, Conditions: discoveryv1.EndpointConditions{Ready: &no}},
				},
			})
		w.create(testPod("p", "busybox", command("sleep", "10000")))
		for name, want := range map[string]string{
			"api": "10.96.7.7 api.default.svc.cluster.local", "api.other": "10.96.8.8 api.other.svc.cluster.local", "API.other.svc.cluster.local.": "10.96.8.8 api.other.svc.cluster.local",
			"workers": "10.244.1.9 workers.default.svc.cluster.local", "worker-0.workers": "10.244.1.9 worker-0.workers.default.svc.cluster.local",
			"worker-1.workers": "", "nobody": "", "api.nowhere": "", "a..b": "", "10-1-2-3.default.pod": "10.1.2.3 10-1-2-3.default.pod.cluster.local", "example.com": "",
			strings.Repeat("x", 64): "", strings.Repeat("x.", 200): "", "localhost": "127.0.0.1 localhost",
		} {
			got := strings.Join(strings.Fields(w.exec("p", "getent", "hosts", name)), " ")
			if got != want {
				t.Errorf("getent hosts %.40s: %q, want %q", name, got, want)
			}
		}
		got := w.exec("p", "sh", "-c", "nslookup workers; echo $?; nslookup nobody; echo $?; nslookup; echo $?")
		want := "Server:\t\t10.96.0.10\nAddress:\t10.96.0.10:53\n\nName:\tworkers.default.svc.cluster.local\nAddress: 10.244.1.9\n0\n" +
			"Server:\t\t10.96.0.10\nAddress:\t10.96.0.10:53\n\n** server can't find nobody: NXDOMAIN\n1\nusage: nslookup HOST [SERVER]\n1\n"
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		// What becomes ready is found within a second.
		s, err := w.client.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "workers-x", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.Endpoints[1].Conditions.Ready = nil
		if _, err := w.client.DiscoveryV1().EndpointSlices("default").Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(namesHold)
		if got := w.exec("p", "getent", "hosts", "worker-1.workers"); !strings.HasPrefix(got, "10.244.1.10 ") {
			t.Errorf("a pod that is ready now: %q", got)
		}
	})
}

// A container reads in /etc what its pod says of names.
func TestFilesOfNames(t *testing.T) {
	two := "2"
	for name, test := range map[string]struct {
		pod             corev1.PodSpec
		resolver, hosts string
	}{
		"cluster first":  {corev1.PodSpec{}, "search team.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n", "10.244.1.9\tp\n"},
		"as its node":    {corev1.PodSpec{DNSPolicy: corev1.DNSDefault}, "nameserver 10.96.0.10\n", "10.244.1.9\tp\n"},
		"node's network": {corev1.PodSpec{NodeName: "n1", HostNetwork: true, DNSPolicy: corev1.DNSClusterFirst}, "nameserver 10.96.0.10\n", "10.244.1.9\tn1\n"},
		"its own": {corev1.PodSpec{DNSPolicy: corev1.DNSNone, DNSConfig: &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.1"}, Searches: []string{"lab.example"},
			Options: []corev1.PodDNSConfigOption{{Name: "edns0"}}}}, "search lab.example\nnameserver 192.0.2.1\noptions edns0\n", "10.244.1.9\tp\n"},
		"and more": {corev1.PodSpec{Hostname: "w0", Subdomain: "workers", DNSConfig: &corev1.PodDNSConfig{Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: &two}}},
			HostAliases: []corev1.HostAlias{{IP: "192.0.2.7", Hostnames: []string{"store", "store.example"}}}},
			"search team.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:2\n",
			"10.244.1.9\tw0.workers.team.svc.cluster.local\tw0\n192.0.2.7\tstore\tstore.example\n"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "p"}, Spec: test.pod}
		if diff := cmp.Diff(test.resolver, resolverOf(pod)); diff != "" {
			t.Errorf("%s: resolv.conf (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff("127.0.0.1\tlocalhost\n::1\tlocalhost\n"+test.hosts, hostsOf(pod, "10.244.1.9")); diff != "" {
			t.Errorf("%s: hosts (-want +got):\n%s", name, diff)
		}
	}
}
