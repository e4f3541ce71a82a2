package kubescheduler

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		what, text string
		want       Message
	}{
		{
			"1.33: the taint is named",
			"0/7 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 6 Insufficient nvidia.com/gpu. preemption: 0/7 nodes are available: 1 Preemption is not helpful for scheduling, 6 No preemption victims found for incoming pod.",
			Message{Nodes: 7, Reasons: []Reason{{1, "node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }"}, {6, "Insufficient nvidia.com/gpu"}}, Evicting: Evicting{Known: true, Never: 1, Nobody: 6}},
		},
		{
			"1.34 to 1.36: claims come before preemption",
			"0/7 nodes are available: 1 node(s) had untolerated taint(s), 6 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: 0/7 nodes are available: 7 Preemption is not helpful for scheduling.",
			Message{Nodes: 7, Reasons: []Reason{{1, "node(s) had untolerated taint(s)"}, {6, "Insufficient nvidia.com/gpu"}}, Evicting: Evicting{Known: true, Never: 7}},
		},
		{
			"1.37",
			"0/12 nodes are available: 10 Insufficient cpu, 12 Insufficient nvidia.com/gpu, 2 Insufficient memory. preemption: 0/12 nodes are available: 12 No preemption victims found for incoming pod.",
			Message{Nodes: 12, Reasons: []Reason{{10, "Insufficient cpu"}, {12, "Insufficient nvidia.com/gpu"}, {2, "Insufficient memory"}}, Evicting: Evicting{Known: true, Nobody: 12}},
		},
		{
			"the pod as a whole",
			"0/7 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/7 nodes are available: 7 Preemption is not helpful for scheduling.",
			Message{Nodes: 7, Whole: "pod has unbound immediate PersistentVolumeClaims", Evicting: Evicting{Known: true, Never: 7}},
		},
		{
			"never preempts",
			"0/2 nodes are available: 2 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.",
			Message{Nodes: 2, Reasons: []Reason{{2, "Insufficient cpu"}}, Evicting: Evicting{Barred: "not eligible due to preemptionPolicy=Never"}},
		},
		{
			"no suffix",
			"0/3 nodes are available: 3 node(s) were unschedulable.",
			Message{Nodes: 3, Reasons: []Reason{{3, "node(s) were unschedulable"}}},
		},
		{
			"a comma in a reason",
			"0/3 nodes are available: 3 request gpu: bad, worse.",
			Message{Nodes: 3, Reasons: []Reason{{3, "request gpu: bad, worse"}}},
		},
		{
			"narrowed before filters",
			"0/5 nodes are available: 1 node(s) had untolerated taint(s), 4 node(s) didn't satisfy plugin(s) [NodeAffinity]. preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling.",
			Message{Nodes: 5, Reasons: []Reason{{1, "node(s) had untolerated taint(s)"}, {4, "node(s) didn't satisfy plugin(s) [NodeAffinity]"}}, Evicting: Evicting{Known: true, Never: 5}},
		},
		{"an empty cluster", "no nodes available to schedule pods", Message{Whole: "no nodes available to schedule pods"}},
	} {
		got, ok := Parse(c.text)
		c.want.Text = c.text
		if d := cmp.Diff(c.want, got); d != "" || !ok {
			t.Errorf("%s: %v %s", c.what, ok, d)
		}
	}
}

// Others' words are nobody's histogram.
func TestDecodeLeavesOthersAlone(t *testing.T) {
	for _, text := range []string{
		"",
		"0/3 nodes are unavailable: 3 Insufficient nvidia.com/gpu.", // Volcano
		"pod group is not ready, 2 Pending, 2 minAvailable; Pending: 1 Undetermined, 1 Unschedulable",
		"Workload requested 8 GPUs, but team-a quota is 4 GPUs",
		"Failed to schedule pod, incompatible with nodepool \"gpu\", daemonset overhead={}, no instance type satisfied resources",
		"Scheduling is blocked due to non-empty scheduling gates",
		"3/3 nodes are available: 1 x",
		"0/x nodes are available: 1 x",
	} {
		if s, ok := Parse(text); ok {
			t.Errorf("%q: %+v", text, s)
		}
	}
}

func TestDecodeCut(t *testing.T) {
	var reasons []string
	for i := range 60 {
		reasons = append(reasons, fmt.Sprintf("%d node(s) had untolerated taint {pool: p%d}", i+1, i))
	}
	text := "0/100 nodes are available: " + strings.Join(reasons, ", ")
	text = text[:1020] + " ..."
	s, ok := Parse(text)
	if !ok || !s.Cut || len(s.Reasons) < 10 || s.Evicting.Known {
		t.Fatalf("%v %+v", ok, s)
	}
	for i, taint := range s.Taints() {
		if want := fmt.Sprintf("p%d", i); taint.Value != want || taint.Key != "pool" {
			t.Errorf("taint %d is %+v, want %s", i, taint, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("0/7 nodes are available: 1 node(s) had untolerated taint(s), 6 Insufficient nvidia.com/gpu. preemption: 0/7 nodes are available: 7 Preemption is not helpful for scheduling.")
	f.Add("0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.")
	f.Add("no nodes available to schedule pods")
	f.Add("0/1 nodes are available: , ...")
	f.Fuzz(func(t *testing.T, text string) {
		s, ok := Parse(text)
		if ok && s.Whole == "" && len(s.Reasons) == 0 {
			t.Errorf("read, and nothing in it: %+v", s)
		}
		for _, r := range s.Reasons {
			if r.Nodes < 0 || !strings.Contains(text, r.Text) {
				t.Errorf("reason %+v is not in the text", r)
			}
		}
		if s.Evicting.Never < 0 || s.Evicting.Nobody < 0 {
			t.Errorf("%+v", s.Evicting)
		}
		s.Taints()
		s.Lacks()
	})
}
