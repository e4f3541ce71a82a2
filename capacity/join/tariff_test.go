package join_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/capacity/join"
	"github.com/berth-dev/berth/diagnose/facts"
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
