package metrics

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/berth-dev/berth/capacity"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md anew")

const (
	page        = "../../docs/metrics.md"
	begin, over = "<!-- metrics of the scheduler: made by go test ./kube/metrics -update -->\n", "<!-- end of metrics -->\n"
)

// The table in the documentation is what the code declares.
func TestPageListsEveryMetric(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	table, tail, ends := strings.Cut(rest, over)
	if !ok || !ends {
		t.Fatalf("%s has no place for the table", page)
	}
	if *update {
		if err := os.WriteFile(page, []byte(head+begin+Table()+over+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(Table(), table); diff != "" {
		t.Errorf("write it anew with go test ./kube/metrics -update:\n%s", diff)
	}
}

// What is served is what is declared: every metric, with its type, its help and its labels, and no other.
func TestServedIsDeclared(t *testing.T) {
	account := capacity.Sum{Account: capacity.Account{Cause: "node-not-ready", Owner: "platform"}, GPUs: 8, PerHour: 2e6, Currency: "USD"}
	paid, err := Seam([]capacity.Sum{account})
	if err != nil {
		t.Fatal(err)
	}
	r := sample(t, 2)
	r.writes.WithLabelValues("post", "pods", "201").Inc()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	got, err := parser.TextToMetricFamilies(strings.NewReader(text(t, r) + paid))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range Catalogue() {
		f := got[m.Name]
		if f == nil {
			t.Errorf("%s is not served", m.Name)
			continue
		}
		if is := strings.ToLower(f.GetType().String()); is != m.Type || f.GetHelp() != m.Help {
			t.Errorf("%s: %s %q", m.Name, is, f.GetHelp())
		}
		var labels []string
		for _, l := range f.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		if diff := cmp.Diff(len(m.Labels), len(labels)); diff != "" {
			t.Errorf("%s has %v, want %v", m.Name, labels, m.Labels)
		}
		delete(got, m.Name)
	}
	for name := range got {
		t.Errorf("%s is not declared", name)
	}
}
