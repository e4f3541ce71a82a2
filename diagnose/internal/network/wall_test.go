package network_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/network"
)

func pod(ns, name, ip string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "rdzv", ContainerPort: 29500}}}}},
		Status:     corev1.PodStatus{PodIP: ip},
	}
}

// TestClosed holds which policies of namespace a close a connection, by their specs.
func TestClosed(t *testing.T) {
	master, worker, other := pod("a", "master", "10.0.0.1"), pod("a", "worker", "10.0.0.2"), pod("b", "other", "10.9.0.1")
	host := pod("a", "host", "192.168.0.1")
	host.Spec.HostNetwork = true
	for name, c := range map[string]struct {
		specs []string
		way   network.Way
		want  string // "": it is open
	}{
		"none":                  {nil, network.Way{From: worker, To: master}, ""},
		"deny":                  {[]string{`{podSelector: {}, policyTypes: [Ingress]}`}, network.Way{From: worker, To: master}, "NetworkPolicy p0 of pod master lets nothing in from pod worker"},
		"types by default":      {[]string{`{podSelector: {}}`}, network.Way{From: worker, To: master}, "NetworkPolicy p0 of pod master lets nothing in from pod worker"},
		"of others":             {[]string{`{podSelector: {matchLabels: {app: x}}}`}, network.Way{From: worker, To: master}, ""},
		"host network":          {[]string{`{podSelector: {}}`}, network.Way{From: worker, To: host}, ""},
		"allowed by another":    {[]string{`{podSelector: {}}`, `{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: worker}}}]}]}`}, network.Way{From: worker, To: master}, ""},
		"another namespace":     {[]string{`{podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}`}, network.Way{From: other, To: master}, "NetworkPolicy p0 of pod master lets nothing in from pod other"},
		"namespace by label":    {[]string{`{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: b}}}]}]}`}, network.Way{From: other, To: master}, ""},
		"both selectors":        {[]string{`{podSelector: {}, ingress: [{from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: x}}}]}]}`}, network.Way{From: other, To: master}, "NetworkPolicy p0 of pod master lets nothing in from pod other"},
		"any port will do":      {[]string{`{podSelector: {}, ingress: [{ports: [{port: 80}]}]}`}, network.Way{From: worker, To: master}, ""},
		"another port":          {[]string{`{podSelector: {}, ingress: [{ports: [{port: 80}]}]}`}, network.Way{From: worker, To: master, Port: 29500}, "NetworkPolicy p0 of pod master lets pod worker in on other ports only, not on 29500"},
		"a range":               {[]string{`{podSelector: {}, ingress: [{ports: [{port: 29000, endPort: 30000}]}]}`}, network.Way{From: worker, To: master, Port: 29500}, ""},
		"a named port":          {[]string{`{podSelector: {}, ingress: [{ports: [{port: rdzv}]}]}`}, network.Way{From: worker, To: master, Port: 29500}, ""},
		"UDP":                   {[]string{`{podSelector: {}, ingress: [{ports: [{port: 29500, protocol: UDP}]}]}`}, network.Way{From: worker, To: master, Port: 29500}, "NetworkPolicy p0 of pod master lets nothing in from pod worker"},
		"ports that are agreed": {[]string{`{podSelector: {}, ingress: [{ports: [{port: 29500}]}]}`}, network.Way{From: worker, To: master, Any: true}, "NetworkPolicy p0 of pod master lets pod worker in on some ports only, and the programs take any"},
		"all that are given":    {[]string{`{podSelector: {}, ingress: [{ports: [{port: 1024, endPort: 65535}]}]}`}, network.Way{From: worker, To: master, Any: true}, ""},
		"egress":                {[]string{`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.0.1.0/24}}]}]}`}, network.Way{From: worker, To: master}, "NetworkPolicy p0 of pod worker lets nothing out to pod master"},
		"egress by address":     {[]string{`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.0.0.0/24}}]}]}`}, network.Way{From: worker, To: master}, ""},
		"a masked address":      {[]string{`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: MASKED}}]}]}`}, network.Way{From: worker, To: master}, ""},
		"but for an address":    {[]string{`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.0.0.0/24, except: [10.0.0.1/32]}}]}]}`}, network.Way{From: worker, To: master}, "NetworkPolicy p0 of pod worker lets nothing out to pod master"},
		"outside":               {[]string{`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{podSelector: {}}]}]}`}, network.Way{From: worker}, "NetworkPolicy p0 of pod worker lets nothing out to there"},
		"outside by address":    {[]string{`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0}}]}]}`}, network.Way{From: worker}, ""},
		"only ingress outside":  {[]string{`{podSelector: {}}`}, network.Way{From: worker}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := policies(t, c.specs...)
			got := ""
			if b := network.Closed(f, c.way); b != nil {
				to := "there"
				if b.To != nil {
					to = "pod " + b.To.Name
				}
				got = b.Says(to)
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestClosedToDNS holds when a pod is taken to be cut off from names.
func TestClosedToDNS(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		want bool
	}{
		"no egress policy":  {`{podSelector: {}}`, false},
		"nothing out":       {`{podSelector: {}, policyTypes: [Egress]}`, true},
		"its own namespace": {`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{podSelector: {}}]}]}`, true},
		"port 53":           {`{podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: 53, protocol: UDP}]}]}`, false},
		"port 443":          {`{podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: 443}]}]}`, true},
		"kube-system":       {`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}}]}]}`, false},
		"another namespace": {`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: b}}}]}]}`, true},
		"an address":        {`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 169.254.20.10/32}}]}]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := network.ClosedToDNS(policies(t, c.spec), pod("a", "worker", "10.0.0.2")) != nil; got != c.want {
				t.Errorf("closed is %v, want %v", got, c.want)
			}
		})
	}
}

// TestOtherProjectsDecide holds that nothing is said where kinds decide whose rules are not known.
func TestOtherProjectsDecide(t *testing.T) {
	f := policies(t, `{podSelector: {}}`)
	f.Foreign = map[string][]*unstructured.Unstructured{"CiliumNetworkPolicy.cilium.io": {{}}}
	if b := network.Closed(f, network.Way{From: pod("a", "worker", ""), To: pod("a", "master", "")}); b != nil {
		t.Errorf("got %q", b.Says(""))
	}
}

func policies(t *testing.T, specs ...string) *facts.Facts {
	t.Helper()
	f := &facts.Facts{}
	for _, ns := range []string{"a", "b", "kube-system"} {
		f.Namespaces = append(f.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: map[string]string{corev1.LabelMetadataName: ns}}})
	}
	for i, spec := range specs {
		n := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p" + string(rune('0'+i))}}
		if err := yaml.UnmarshalStrict([]byte(spec), &n.Spec); err != nil {
			t.Fatal(err)
		}
		f.NetworkPolicies = append(f.NetworkPolicies, n)
	}
	return f
}
