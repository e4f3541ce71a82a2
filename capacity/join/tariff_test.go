package join_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/capacity/bill"
	"github.com/berth-dev/berth/capacity/join"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// TestTariffLeavesOut: a reservation that its provider says has not begun, though its time has come or none is known, is not paid for, in
// the account or on the bill.
func TestTariffLeavesOut(t *testing.T) {
	f := &facts.Facts{At: now}
	text := "apiVersion: berth.dev/v1alpha1\nkind: Reservation\nmetadata: {name: NAME, creationTimestamp: \"2026-11-01T00:00:00Z\"}\nspec: {provider: aws, instanceType: p5en.48xlarge, gpus: {count: 8}, instances: 1SPEC}\nstatus: {STATUS}\n"
	docs := ""
	for _, r := range [][3]string{
		{"late", `, start: "2026-11-17T05:00:00Z"`, `state: scheduled, observedAt: "2026-11-17T05:30:00Z"`},
		{"pending", "", "state: scheduled"},
		{"failed", "", "state: failed"},
		{"to-come", `, start: "2026-11-18T05:00:00Z"`, "state: scheduled"},
		{"begun-since", `, start: "2026-11-17T05:00:00Z"`, `state: scheduled, observedAt: "2026-11-17T04:30:00Z"`},
		{"over", `, end: "2026-11-17T05:00:00Z"`, "state: active"},
	} {
		docs += "---\n" + strings.NewReplacer("NAME", r[0], "SPEC", r[1], "STATUS", r[2]).Replace(text)
	}
	foreign(t, f, strings.TrimPrefix(docs, "---\n"))
	var got []string
	for _, r := range join.TariffOf(f).Reservations {
		got = append(got, r.Name)
	}
	if diff := cmp.Diff([]string{"begun-since", "over", "to-come"}, got); diff != "" {
		t.Error(diff)
	}
	if n := len(join.Of(join.Input{Facts: f}).GPUs); n != 8 {
		t.Errorf("%d GPUs are paid for now, want 8", n)
	}
}

// TestSpotPrice: of one pool, one node is spot and one on demand, each for an hour; the account and the bill have 20 and 80 for them.
func TestSpotPrice(t *testing.T) {
	f := &facts.Facts{At: now}
	f.Nodes = []*corev1.Node{node("spot", 8, 8, labelled("karpenter.sh/nodepool", "gpu"), labelled("karpenter.sh/capacity-type", "spot")), node("bought", 8, 8, labelled("karpenter.sh/nodepool", "gpu"), labelled("karpenter.sh/capacity-type", "on-demand"))}
	foreign(t, f, `
apiVersion: berth.dev/v1alpha1
kind: Pool
metadata: {name: karpenter}
spec: {selects: {nodePool: gpu}, price: {perInstanceHour: "80"}, spotPrice: {perInstanceHour: "20"}}
`)
	if diff := cmp.Diff([]string{"schedulable idle none 16 100.00 USD"}, shown(t, join.Of(join.Input{Facts: f}))); diff != "" {
		t.Error(diff)
	}
	b := bill.New(bill.Options{Tariff: join.TariffOf(f)})
	step := bill.Step{Now: now, Fresh: true}
	for _, n := range f.Nodes {
		v := convert.Node(n, convert.Options{})
		step.Changes = append(step.Changes, engine.Change{Node: &v})
	}
	b.Add(step)
	if got := b.Close(now.Add(time.Hour), bill.ByQueue).Paid.Cost; len(got) != 1 || got[0].Micro.Text() != "100.00" {
		t.Error(got)
	}
}
