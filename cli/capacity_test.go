package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
