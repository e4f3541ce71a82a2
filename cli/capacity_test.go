package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/capacity"
)

// TestCapacityRefuses holds the command to its usage.
func TestCapacityRefuses(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"capacity --by team", "--by"},
		{"capacity -o name", "-o"},
		{"capacity --watch --interval 1ms", "--interval"},
		{"capacity import", "aws"},
		{"capacity import --aws - --gcp -", "gcp"},
		{"capacity import --aws - --price 1,5", "--price"},
	} {
		var out, errs bytes.Buffer
		code := Main(strings.Fields(c.args), Streams{In: strings.NewReader("{}"), Out: &out, Err: &errs}, Deps{})
		if code != exitUsage || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: %d %s", c.args, code, errs.String())
		}
	}
}

// TestCapacityImportPrints prints the same objects each time, and says what it leaves out.
func TestCapacityImportPrints(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	text := `{"CapacityReservations":[{"CapacityReservationId":"cr-1","InstanceType":"p5.48xlarge","TotalInstanceCount":2,"State":"active"},{"CapacityReservationId":"cr-2","InstanceType":"m7i.large","TotalInstanceCount":2}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code := Main([]string{"capacity", "import", "--aws", path, "--price", "98.32", "-o", "yaml"}, Streams{Out: &out, Err: &errs}, Deps{})
	for _, want := range []string{"kind: Reservation", "name: cr-1", "perInstanceHour: \"98.32\"", "instances: 2", "state: active"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, out.String())
		}
	}
	if code != exitOK || !strings.Contains(errs.String(), "left out: cr-2: its machines have no GPUs that are known") {
		t.Errorf("%d %s", code, errs.String())
	}
}

// TestLeaksNameTheirOwners: of two causes of one kind of team, each names who can mend it; a cause of which nothing tells names the kind.
func TestLeaksNameTheirOwners(t *testing.T) {
	v := &capacityView{Lost: []capacityLoss{
		{Leak: capacity.Leak{Cause: "device-plugin-missing", Owner: "platform"}, Ask: []string{"who keeps DaemonSet gpu/plugin"}},
		{Leak: capacity.Leak{Cause: "node-cordoned", Owner: "platform"}, Ask: []string{"who cordoned node a", "who cordoned node b"}},
		{Leak: capacity.Leak{Cause: "cloud-quota", Owner: "capacity"}},
	}}
	var b strings.Builder
	v.leaks(&b, true)
	var got []string
	for line := range strings.Lines(b.String()) {
		if _, who, ok := strings.Cut(strings.TrimSpace(line), "Owner: "); ok {
			got = append(got, who)
		}
	}
	want := []string{"who keeps DaemonSet gpu/plugin (platform).", "who cordoned node a (platform).", "who cordoned node b (platform).", "capacity."}
	if !slices.Equal(want, got) {
		t.Errorf("%q", b.String())
	}
}
