package dra

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

func domain(nodes int) *ComputeDomain {
	d := &ComputeDomain{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "train", UID: "uid"}}
	d.Spec.NumNodes, d.Spec.Channel.ResourceClaimTemplate.Name = nodes, "train-channel"
	return d
}

// All that a domain consists of, and what a node offers for it.
func TestDomainObjects(t *testing.T) {
	m := workstation(t)
	if s := m.DomainSlice(owner()); s != nil {
		t.Errorf("a machine that is not in an NVLink domain offers %v", s)
	}
	m.Clique = "nvl72.0"
	d := domain(2)
	var all []byte
	for _, o := range []any{m.DomainSlice(owner()), d.WorkloadTemplate(), d.DaemonTemplate("gpu-operator"), d.DaemonSet("gpu-operator", map[string]string{"a": "b"})} {
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		all = append(append(all, "---\n"...), text...)
	}
	golden(t, "domain.yaml", all)
}

func TestDomainStatus(t *testing.T) {
	say := func(s DomainStatus) (out []string) {
		for _, n := range s.Nodes {
			out = append(out, fmt.Sprintf("%s %s/%d %s", n.Name, n.CliqueID, n.Index, n.Status))
		}
		return append(out, s.Status)
	}
	node := func(name, clique, status string) DomainNode {
		return DomainNode{Name: name, CliqueID: clique, Status: status, IPAddress: "10.0.0.1"}
	}
	d := domain(2)
	for _, step := range []struct {
		name    string
		daemons []DomainNode
		want    []string
	}{
		{"nobody", nil, []string{"NotReady"}},
		{"one that starts", []DomainNode{node("b", "x", DomainNotReady)}, []string{"b x/0 NotReady", "NotReady"}},
		{"one", []DomainNode{node("b", "x", DomainReady)}, []string{"b x/0 Ready", "NotReady"}},
		{"who was there keeps its index", []DomainNode{node("a", "x", DomainReady), node("b", "x", DomainReady)}, []string{"a x/1 Ready", "b x/0 Ready", "Ready"}},
		{"another clique", []DomainNode{node("a", "x", DomainReady), node("b", "x", DomainReady), node("c", "y", DomainNotReady)}, []string{"a x/1 Ready", "b x/0 Ready", "c y/0 NotReady", "NotReady"}},
		{"a gap is filled", []DomainNode{node("a", "x", DomainReady), node("d", "x", DomainReady)}, []string{"a x/1 Ready", "d x/0 Ready", "Ready"}},
		{"a node in another clique now", []DomainNode{node("a", "y", DomainReady), node("d", "x", DomainReady)}, []string{"a y/0 Ready", "d x/0 Ready", "Ready"}},
		{"one is lost", []DomainNode{node("d", "x", DomainReady)}, []string{"d x/0 Ready", "NotReady"}},
	} {
		d.Status = d.With(step.daemons)
		if diff := cmp.Diff(step.want, say(d.Status)); diff != "" {
			t.Errorf("%s: %s", step.name, diff)
		}
	}
	if got := domain(0).With(nil).Status; got != DomainReady {
		t.Errorf("one that wants no number of nodes is %s", got)
	}
}

// However daemons come and go, no two of a clique have the same index, nobody's changes, and each is less than the daemons that there were at once.
func TestDomainIndexes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, most := domain(0), 0
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			var daemons []DomainNode
			for i := range 6 {
				if rapid.Bool().Draw(t, "there") {
					daemons = append(daemons, DomainNode{Name: fmt.Sprint("n", i), CliqueID: fmt.Sprint("c", i%2)})
				}
			}
			most = max(most, len(daemons))
			next := d.With(daemons)
			seen := map[string]bool{}
			for _, n := range next.Nodes {
				at := fmt.Sprint(n.CliqueID, n.Index)
				i := slices.IndexFunc(d.Status.Nodes, func(o DomainNode) bool { return o.Name == n.Name })
				if seen[at] || n.Index >= most || i >= 0 && d.Status.Nodes[i].Index != n.Index {
					t.Fatalf("from %+v to %+v", d.Status.Nodes, next.Nodes)
				}
				seen[at] = true
			}
			d.Status = next
		}
	})
}

func TestDomainUses(t *testing.T) {
	m := workstation(t)
	m.Clique = "nvl72.0"
	has := func(device string) *resourcev1.AllocationResult {
		return &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "gpu", Driver: Driver, Pool: "alice", Device: "gpu-0"}, {Request: "r", Driver: DomainDriver, Pool: "alice", Device: device},
		}}}
	}
	says := func(a *resourcev1.AllocationResult, source resourcev1.AllocationConfigSource, text string, requests ...string) *resourcev1.AllocationResult {
		c := resourcev1.DeviceAllocationConfiguration{Source: source, Requests: requests}
		c.Opaque = &resourcev1.OpaqueDeviceConfiguration{Driver: DomainDriver}
		c.Opaque.Parameters.Raw = []byte(text)
		a.Devices.Config = append(a.Devices.Config, c)
		return a
	}
	const claim, class = resourcev1.AllocationConfigSourceClaim, resourcev1.AllocationConfigSourceClass
	elsewhere := says(has("channel-0"), claim, `{"kind":"ComputeDomainChannelConfig","domainID":"x"}`)
	elsewhere.Devices.Results[1].Pool = "bob"
	for name, c := range map[string]struct {
		allocation *resourcev1.AllocationResult
		want       string
	}{
		"a channel":                     {says(has("channel-0"), claim, `{"kind":"ComputeDomainChannelConfig","domainID":"x"}`, "r"), "[{x false}]"},
		"a daemon":                      {says(has("daemon-0"), claim, `{"kind":"ComputeDomainDaemonConfig","domainID":"x"}`, "r"), "[{x true}]"},
		"for all requests":              {says(has("channel-0"), claim, `{"kind":"ComputeDomainChannelConfig","domainID":"x"}`), "[{x false}]"},
		"of the other kind, for all":    {says(has("channel-0"), claim, `{"kind":"ComputeDomainDaemonConfig","domainID":"x"}`), "domainID cannot be empty"},
		"of the other kind":             {says(has("channel-0"), claim, `{"kind":"ComputeDomainDaemonConfig","domainID":"x"}`, "r"), "cannot apply ComputeDomainDaemonConfig to request: r"},
		"of another request":            {says(has("channel-0"), claim, `{"kind":"ComputeDomainChannelConfig","domainID":"x"}`, "gpu"), "domainID cannot be empty"},
		"no configuration":              {has("channel-0"), "domainID cannot be empty"},
		"the claim's goes before":       {says(says(has("channel-0"), claim, `{"kind":"ComputeDomainChannelConfig","domainID":"x"}`), class, `{"kind":"ComputeDomainChannelConfig","domainID":"y"}`), "[{x false}]"},
		"no JSON":                       {says(has("channel-0"), claim, `x`, "r"), "error decoding config parameters"},
		"a channel that is not offered": {says(has("channel-1"), claim, `{"kind":"ComputeDomainChannelConfig","domainID":"x"}`), "requested device is not allocatable: channel-1"},
		"of another node":               {elsewhere, "requested device is not allocatable: channel-0"},
		"what the template says":        {says(has("channel-0"), claim, string(domain(1).WorkloadTemplate().Spec.Spec.Devices.Config[0].Opaque.Parameters.Raw), "r"), "[{uid false}]"},
	} {
		uses, err := m.DomainUses(c.allocation)
		if got := fmt.Sprint(uses, err); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
